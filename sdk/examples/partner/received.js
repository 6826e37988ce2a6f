// Shows the webhooks as they come, and the page anew where one of them changed its state. Without this script the page
// shows what had come when it was opened.
const list = document.getElementById("received");
let shown, leaving = false;
addEventListener("submit", () => { leaving = true; });
addEventListener("pagehide", () => { leaving = true; });

async function look() {
  if (leaving) return;
  const answer = await fetch("/webhooks/received").catch(() => null);
  const text = answer?.ok ? await answer.text() : shown;
  if (leaving || !answer?.ok) return;
  if (answer.headers.get("Connection-State") !== list.dataset.state) {
    leaving = true;
    location.reload();
  } else if (text !== shown && !list.querySelector("details[open], :focus")) {
    shown = text;
    list.innerHTML = text;
  }
}
setInterval(look, 1500);
if ("live" in list.dataset) setTimeout(() => location.reload(), 5000);
