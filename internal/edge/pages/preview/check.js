// Shows each page in a frame of each size and in each scheme, measures it, and sends what is wrong.
(async () => {
  const plan = await (await fetch("/check/plan")).json();
  const measure = await (await fetch("/check/faults.js")).text();
  const rest = [...plan.Pages];
  const frameOfOne = async () => {
    const frame = document.body.appendChild(document.createElement("iframe"));
    frame.style.border = 0;
    frame.style.height = `${plan.Height}px`;
    for (let page; (page = rest.shift()); ) {
      const faults = new Map(); // from each fault to where it was first
      const loaded = new Promise((done) => frame.addEventListener("load", done, { once: true }));
      frame.src = `/${page}`;
      await loaded;
      const shown = frame.contentWindow;
      const status = shown.performance.getEntriesByType("navigation")[0].responseStatus;
      for (const scheme of plan.Schemes) {
        frame.style.colorScheme = scheme;
        for (const width of plan.Widths) {
          frame.style.width = `${width}px`;
          for (const scale of plan.Scales) {
            shown.document.documentElement.style.fontSize = `${scale}%`;
            const found = status === 200 ? await shown.eval(measure) : [`status ${status}`];
            if (scale === 100) {
              for (const button of shown.document.querySelectorAll("button.act, .other")) {
                const { height } = button.getBoundingClientRect();
                if (height < 44) found.push(`button of ${height.toFixed()} px in height: "${button.textContent.trim()}"`);
              }
              const end = shown.document.querySelector(".until")?.getBoundingClientRect().bottom;
              if (width === plan.TermsWidth && end > plan.Height) found.push(`what Allow is about ends at ${end.toFixed()} of ${plan.Height} px`);
              if (shown.matchMedia("(prefers-color-scheme: dark)").matches !== (scheme === "dark")) found.push("this browser does not show it");
            }
            for (const fault of found) {
              if (!faults.has(fault)) faults.set(fault, `${width} px, ${scheme}${scale === 100 ? "" : `, text of ${scale} %`}`);
            }
          }
        }
      }
      for (const [fault, where] of faults) await send("/check/found", `${page}, ${where}: ${fault}`);
    }
  };
  const send = (path, body = "") => fetch(path, { method: "POST", body });
  try {
    await Promise.all([frameOfOne(), frameOfOne()]);
    await send("/check/end");
  } catch (error) {
    await send("/check/end", `${error}`);
  }
})();
