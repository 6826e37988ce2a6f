// Draws the contract with Redoc, in the colors of the site and of the user's system. Nothing is asked of another host, and
// nothing is stored.
(() => {
  "use strict";
  const page = document.getElementById("reference");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const sans = getComputedStyle(document.documentElement).fontFamily;
  const mono = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';

  // Redoc computes with colors, and so cannot take the style sheet's own.
  const theme = (d) => ({
    spacing: { sectionVertical: 28 },
    colors: {
      primary: { main: d ? "#8fdcba" : "#0b5a41" },
      success: { main: d ? "#7fd3ae" : "#0b5a41" },
      warning: { main: d ? "#e0b65a" : "#7a5a10", contrastText: d ? "#0e1512" : "#fff" },
      error: { main: d ? "#ffb3a8" : "#9c1f17" },
      gray: { 50: d ? "#0e1512" : "#f2f6f3", 100: d ? "#1e2f27" : "#e4efe8" },
      border: { dark: d ? "#81958b" : "#6d8076", light: d ? "#2b3932" : "#d3ddd6" },
      text: { primary: d ? "#e6eee9" : "#14231c", secondary: d ? "#aebcb4" : "#485a51" },
      http: {
        get: d ? "#7fd3ae" : "#0b5a41", post: d ? "#8fc4ee" : "#1b4f7d", delete: d ? "#ffb3a8" : "#9c1f17",
        basic: d ? "#aebcb4" : "#485a51",
      },
      responses: {
        success: { color: d ? "#8fdcba" : "#0b5a41", backgroundColor: d ? "#15291f" : "#eef6f1", tabTextColor: "#8fdcba" },
        error: { color: d ? "#ffb3a8" : "#9c1f17", backgroundColor: d ? "#341a18" : "#fdf1ef", tabTextColor: "#ffb3a8" },
      },
    },
    schema: {
      nestedBackground: d ? "#0e1512" : "#f2f6f3",
      linesColor: d ? "#81958b" : "#6d8076",
      typeNameColor: d ? "#aebcb4" : "#485a51",
      typeTitleColor: d ? "#aebcb4" : "#485a51",
      requireLabelColor: d ? "#ffb3a8" : "#9c1f17",
      nestingSpacing: "1em",
    },
    typography: {
      fontSize: "16px", lineHeight: "1.6", fontFamily: sans, optimizeSpeed: true,
      headings: { fontFamily: sans, fontWeight: "650", lineHeight: "1.3" },
      code: { fontFamily: mono, fontSize: "14px", color: d ? "#e6eee9" : "#14231c", backgroundColor: d ? "#1e2f27" : "#e4efe8", wrap: true },
      links: { color: d ? "#8fdcba" : "#0b5a41", visited: d ? "#8fdcba" : "#0b5a41", hover: d ? "#8fdcba" : "#0b5a41" },
    },
    sidebar: {
      width: "17rem", backgroundColor: d ? "#0e1512" : "#edf1ee", textColor: d ? "#e6eee9" : "#14231c",
      activeTextColor: d ? "#8fdcba" : "#0b5a41",
      groupItems: { textTransform: "none", activeBackgroundColor: d ? "#1e2f27" : "#dfeae3" },
      level1Items: { textTransform: "none", activeBackgroundColor: d ? "#1e2f27" : "#dfeae3" },
    },
    fab: { backgroundColor: d ? "#1e2f27" : "#fff", color: d ? "#8fdcba" : "#0b5a41" },
    rightPanel: {
      backgroundColor: "#14231c", textColor: "#e6eee9",
      servers: {
        overlay: { backgroundColor: d ? "#1e2f27" : "#f2f6f3", textColor: d ? "#e6eee9" : "#14231c" },
        url: { backgroundColor: d ? "#0e1512" : "#fff" },
      },
    },
    codeBlock: { backgroundColor: "#0e1512" },
  });

  const draw = () => {
    const colors = dark.matches ? "dark" : "light";
    const place = document.createElement("div");
    page.replaceChildren(place); // a fresh one each time: React keeps the one that it was given
    Redoc.init(page.dataset.contract, {
      theme: theme(colors === "dark"), nativeScrollbars: true, disableSearch: true,
      requiredPropsFirst: true, sortPropsAlphabetically: false, jsonSampleExpandLevel: 3, scrollYOffset: 0,
      pathInMiddlePanel: true, expandResponses: "200,204", expandDefaultServerVariables: true,
    }, place, () => {
      for (const listing of place.querySelectorAll("pre")) listing.tabIndex = 0; // it may scroll
      place.className = colors; // it is whole
    });
  };
  dark.addEventListener("change", draw);
  draw();
})();
