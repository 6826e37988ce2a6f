// What a reader gains by a script: a button that copies an example, one example at a time in the language of choice, and a search.
// The pages are whole without it. It stores nothing, since the pages have an origin of their own that may not: the language goes
// along in the addresses of links. It asks nobody for anything but the list of places to search, once somebody does.
(() => {
  "use strict";
  const listURL = new URL(document.currentScript.dataset.places, location.href);
  const root = new URL("..", listURL).href; // of the site

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    element.append(...children);
    return element;
  };

  const news = make("p", { class: "news", role: "status" });
  document.body.append(news);

  // Copying.
  const copy = async (listing) => {
    const code = listing.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch { // browsers may keep that from a page whose origin is nobody's
      const selection = getSelection();
      selection.selectAllChildren(code);
      if (!document.execCommand("copy")) return "Selected";
      selection.removeAllRanges();
    }
    return "Copied";
  };
  for (const listing of document.querySelectorAll(".code")) {
    const language = listing.querySelector(".language").textContent;
    const button = make("button", { type: "button", class: "copy", "aria-label": `Copy ${language}` }, "Copy");
    button.addEventListener("click", async () => {
      button.textContent = news.textContent = await copy(listing);
      setTimeout(() => { button.textContent = "Copy"; news.textContent = ""; }, 2000);
    });
    listing.prepend(button);
  }

  // Languages.
  const groups = [];
  const remember = (link) => {
    if (!link.href.startsWith(root) || !/\.html$/.test(link.pathname) || link.pathname === location.pathname) return;
    const url = new URL(link.href);
    url.searchParams.set("language", chosen);
    link.href = url.href;
  };
  let chosen = new URLSearchParams(location.search).get("language");
  const show = (group, language) => {
    for (const { tab, listing, name } of group) {
      const selected = name === language;
      listing.hidden = !selected;
      tab.setAttribute("aria-selected", selected);
      tab.tabIndex = selected ? 0 : -1;
    }
  };
  const choose = (language, tab) => {
    const before = tab.getBoundingClientRect().top;
    chosen = language;
    for (const group of groups) if (group.some(({ name }) => name === language)) show(group, language);
    for (const link of document.links) remember(link);
    const here = new URL(location.href);
    here.searchParams.set("language", chosen);
    history.replaceState(null, "", here); // for those who load the page again, or pass it on
    scrollBy({ top: tab.getBoundingClientRect().top - before, behavior: "instant" }); // what the reader looks at stays there
    tab.focus();
  };
  for (const [number, examples] of document.querySelectorAll(".examples").entries()) {
    const list = make("div", { class: "tabs", role: "tablist", "aria-label": "Language" });
    const group = [...examples.children].map((listing) => {
      const name = listing.dataset.language;
      const label = listing.querySelector(".language").textContent;
      const tab = make("button", { type: "button", role: "tab", id: `tab-${number}-${name}` }, label);
      return { name, listing, tab };
    });
    if (group.length < 2) continue;
    for (const [i, { name, listing, tab }] of group.entries()) {
      listing.id = `example-${number}-${name}`;
      listing.setAttribute("role", "tabpanel");
      listing.setAttribute("aria-labelledby", tab.id);
      tab.setAttribute("aria-controls", listing.id);
      tab.addEventListener("click", () => choose(name, tab));
      tab.addEventListener("keydown", ({ key }) => {
        const next = { ArrowRight: i + 1, ArrowLeft: i - 1 + group.length, Home: 0, End: group.length - 1 }[key];
        if (next === undefined) return;
        const { name, tab } = group[next % group.length];
        choose(name, tab);
      });
      list.append(tab);
    }
    examples.classList.add("tabbed");
    examples.prepend(list);
    groups.push(group);
    show(group, group.some(({ name }) => name === chosen) ? chosen : group[0].name);
  }
  if (chosen) for (const link of document.links) remember(link);

  // Searching.
  const place = document.querySelector(".search");
  const results = make("ul", { class: "results", id: "results", hidden: "" });
  const field = make("input", {
    type: "search", "aria-label": "Search", "aria-controls": results.id, "aria-keyshortcuts": "Control+K Meta+K",
    placeholder: "Search", autocomplete: "off", spellcheck: "false",
  });
  place.replaceChildren(field, make("kbd", { "aria-hidden": "true" }, /Mac|iP/.test(navigator.platform) ? "⌘K" : "Ctrl K"), results);

  const score = ([label, where, , text, others], words) => {
    let sum = 0;
    for (const word of words) {
      const at = label.indexOf(word);
      if (label === word) sum += 100;
      else if (others.split(" ").includes(word)) sum += 70;
      else if (at === 0) sum += 60;
      else if (at > 0) sum += 40;
      else if (where.includes(word)) sum += 10;
      else if (text.includes(word)) sum += text.indexOf(word) < 60 ? 20 : 5;
      else return 0;
    }
    return sum - where.length / 100;
  };
  const excerpt = (text, words) => {
    const found = words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
    const first = found.length > 0 ? Math.min(...found) : 0;
    const from = first > 60 ? text.indexOf(" ", first - 40) + 1 : 0;
    const to = text.length > from + 140 ? text.lastIndexOf(" ", from + 140) : text.length;
    return (from > 0 ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : "");
  };
  // One letter is missing, too many, another one or swapped with the next.
  const near = (a, b) => {
    let i = 0;
    while (i < a.length && a[i] === b[i]) i++;
    const [x, y] = [a.slice(i), b.slice(i)];
    return x.slice(1) === y || x === y.slice(1) || x.slice(1) === y.slice(1) || (x[0] === y[1] && x[1] === y[0] && x.slice(2) === y.slice(2));
  };
  // What was probably meant: of the words of the site that are near, the one that it has most often.
  const corrected = (word, entries) => {
    if (word.length < 4 || entries.some((entry) => entry.some((part) => part.includes(word)))) return word;
    const often = new Map();
    for (const other of entries.flat().join(" ").match(/[\w-]+/g)) if (near(word, other)) often.set(other, (often.get(other) ?? 0) + 1);
    return [...often.keys()].sort((a, b) => often.get(b) - often.get(a))[0] ?? word;
  };
  const close = () => { results.hidden = true; };
  const search = () => {
    let words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0 || !self.places) return close();
    const entries = self.places.map((entry) => entry.map((part) => part.toLowerCase()));
    const find = () => entries.map((entry, i) => [score(entry, words), self.places[i]])
      .filter(([points]) => points > 0).sort(([a], [b]) => b - a).slice(0, 10);
    let found = find();
    if (found.length === 0) {
      words = words.map((word) => corrected(word, entries));
      found = find();
    }
    results.replaceChildren(...found.map(([, [label, where, address, text]]) => {
      const link = make("a", { href: new URL(address, root).href }, make("b", {}, label), make("small", {}, where), make("span", {}, excerpt(text, words)));
      if (chosen) remember(link);
      return make("li", {}, link);
    }));
    if (found.length === 0) results.append(make("li", { class: "none" }, "Nothing found"));
    results.hidden = false;
    news.textContent = found.length === 0 ? "Nothing found" : `${found.length} results, arrow down to the first`;
  };
  const load = () => {
    if (self.places || document.head.querySelector("script[data-list]")) return;
    const list = make("script", { src: listURL.href, "data-list": "" });
    list.addEventListener("load", search);
    document.head.append(list);
  };
  field.addEventListener("focus", load);
  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    const first = results.querySelector("a");
    if (event.key === "Enter" && !results.hidden) first?.click();
  });
  place.addEventListener("keydown", (event) => {
    const stops = [field, ...results.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (event.key === "Escape" && !results.hidden) {
      event.preventDefault(); // the browser would empty the field
      close();
      field.focus();
    } else if (next !== undefined && !results.hidden) {
      event.preventDefault();
      stops[Math.max(0, Math.min(next, stops.length - 1))].focus();
    }
  });
  place.addEventListener("focusout", ({ relatedTarget }) => { if (relatedTarget && !place.contains(relatedTarget)) close(); });
  results.addEventListener("click", close);
  addEventListener("pointerdown", ({ target }) => { if (!place.contains(target)) close(); });
  addEventListener("keydown", (event) => {
    if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
})();
