// Gives each frame the height of its page.
for (const frame of document.querySelectorAll("iframe")) {
  const fit = () => {
    const page = frame.contentDocument?.documentElement;
    if (page) frame.style.height = `${Math.max(page.scrollHeight, page.querySelector("body").scrollHeight)}px`;
  };
  frame.style.height = "100px";
  frame.addEventListener("load", fit);
  if (frame.contentDocument?.readyState === "complete") fit();
}
