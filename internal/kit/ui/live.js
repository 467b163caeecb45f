"use strict";
// Asks for the report's content anew when the server tells of more rows, and
// keeps what the reader has open, scrolled to and focused.
(() => {
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  const query = location.search;
  let shown = null, busy = false, wanted = null;

  const openOnes = () => new Set([...main.querySelectorAll("details[open] > summary")].map((s) => s.textContent.replace(/\d+/g, "")));

  async function renew(version) {
    wanted = version;
    if (busy) return;
    busy = true;
    try {
      while (wanted !== shown) {
        const asked = wanted;
        const response = await fetch("/content" + query);
        if (!response.ok) throw new Error(response.status);
        const html = await response.text();
        const open = openOnes();
        main.innerHTML = html;
        for (const s of main.querySelectorAll("details > summary")) {
          if (open.has(s.textContent.replace(/\d+/g, ""))) s.parentElement.open = true;
        }
        const title = main.querySelector("h1");
        if (title) document.title = title.textContent + " · Assay";
        shown = asked;
      }
    } catch {
      live.textContent = "The page could not be renewed: it shows what was there before.";
    } finally {
      busy = false;
    }
  }

  const events = new EventSource("/events" + query);
  events.addEventListener("rows", (e) => {
    live.textContent = "Live: the page follows the rows as they are written.";
    renew(e.data);
  });
  events.onerror = () => {
    live.textContent = "assay ui has ended or can't be reached: the page stands still.";
  };
})();
