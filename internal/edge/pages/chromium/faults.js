(async () => {
  // A page that loads itself anew has no style sheet at first.
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done));
  const faults = [];
  const describe = (element) => `${element.tagName.toLowerCase()}.${element.className.baseVal ?? element.className} "${element.textContent.trim().slice(0, 40)}"`;
  const parse = (color) => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, under) => ({
    r: top.r * top.a + under.r * (1 - top.a),
    g: top.g * top.a + under.g * (1 - top.a),
    b: top.b * top.a + under.b * (1 - top.a),
    a: 1,
  });
  // Backgrounds lie over each other up to the canvas, which is white or black by the scheme.
  const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? { r: 0, g: 0, b: 0, a: 1 } : { r: 255, g: 255, b: 255, a: 1 };
  const backgrounds = new Map([[null, canvas]]);
  const background = (element) => {
    if (!backgrounds.has(element)) backgrounds.set(element, over(parse(getComputedStyle(element).backgroundColor), background(element.parentElement)));
    return backgrounds.get(element);
  };
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const visible = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 1;

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (texts.currentNode.data.trim() === "" || !visible(element)) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const got = contrast(over(parse(style.color), background(element)), background(element));
    if (got < wanted) faults.push(`contrast ${got.toFixed(2)} of ${describe(element)}`);
  }
  for (const field of document.querySelectorAll("input, select, textarea")) {
    const got = contrast(parse(getComputedStyle(field).borderTopColor), background(field.parentElement));
    if (visible(field) && document.activeElement !== field && got < 3) faults.push(`contrast ${got.toFixed(2)} of the edge of ${describe(field)}`);
  }
  // What sends a form, if it is filled, stands out by that or by its edge.
  for (const button of document.querySelectorAll("form button:enabled")) {
    const { backgroundColor, borderTopColor, borderTopWidth } = getComputedStyle(button);
    if (!visible(button) || parse(backgroundColor).a === 0) continue;
    const ground = background(button.parentElement);
    const got = Math.max(contrast(background(button), ground), parseFloat(borderTopWidth) > 0 ? contrast(over(parse(borderTopColor), ground), ground) : 1);
    if (got < 3) faults.push(`contrast ${got.toFixed(2)} of the edge of ${describe(button)}`);
  }
  for (const target of document.querySelectorAll("a, button, input, select, textarea, summary")) {
    const { width, height } = target.getBoundingClientRect();
    if (visible(target) && (width < 24 || height < 24)) faults.push(`target of ${width.toFixed()} by ${height.toFixed()}: ${describe(target)}`);
  }
  // In a flexible box without a gap, the space between words and an element is lost.
  for (const element of document.querySelectorAll("body *")) {
    const { display, columnGap } = getComputedStyle(element);
    if (!/flex|grid/.test(display) || parseFloat(columnGap) > 0) continue;
    for (const { data, nodeType, nextElementSibling, previousElementSibling } of element.childNodes) {
      if (nodeType !== Node.TEXT_NODE || data.trim() === "") continue;
      if ((/\s$/.test(data) && nextElementSibling) || (/^\s/.test(data) && previousElementSibling)) faults.push(`no space beside "${data.trim()}" in ${describe(element)}`);
    }
  }
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) faults.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${wide}`);
  // What a table or a listing scrolls for itself may be wider.
  const scrolled = (element) => element !== document.body && (/auto|scroll/.test(getComputedStyle(element).overflowX) || scrolled(element.parentElement));
  for (const element of document.querySelectorAll("main *")) {
    if (visible(element) && !scrolled(element.parentElement) && element.getBoundingClientRect().right > wide + 0.5) faults.push(`beyond the window: ${describe(element)}`);
  }
  return faults;
})()
