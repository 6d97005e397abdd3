"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Controls do nothing without this script, so they show only with it.
  all("[data-needs-script]").forEach((element) => { element.hidden = false; });

  // Theme: follows the system until the button is used.
  const theme = byId("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : prefersDark.matches;
  };
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  showTheme();

  // Sorting: rows move inside their category; the heading stays first, means stay last.
  const table = byId("results-table");
  const valueOf = (row, column, isText) => {
    const cell = row.cells[column];
    if (isText) return cell.textContent.trim();
    const data = cell.querySelector("data");
    return data ? Number(data.value) : null;
  };
  // What stands beside a pooled row (its figures without some tasks) follows it.
  const beside = (row) => {
    const found = [];
    for (let next = row.nextElementSibling; next?.classList.contains("beside"); next = next.nextElementSibling) found.push(next);
    return found;
  };
  const compare = (a, b, direction) => {
    if (a === null || b === null) return (a === null) - (b === null); // missing: always last
    return direction * (typeof a === "string" ? a.localeCompare(b) : a - b);
  };
  all("thead th", table).forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const ascending = header.getAttribute("aria-sort") !== "ascending";
      all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const isText = header.dataset.kind === "text";
      for (const body of table.tBodies) {
        const rows = all("tr[data-row]", body);
        const keyed = rows.map((row) => [valueOf(row, column, isText), row]);
        keyed.sort((x, y) => compare(x[0], y[0], ascending ? 1 : -1));
        const end = body.querySelector("tr.mean:not(.beside)");
        for (const [, row] of keyed) for (const moved of [row, ...beside(row)]) body.insertBefore(moved, end);
      }
    });
  });

  // Filters: each select narrows by one data attribute; an empty value means all.
  const filter = (items, selects, report) => {
    const apply = () => {
      let shown = 0;
      for (const item of items) {
        const fits = selects.every(([select, key]) => !select.value || item.dataset[key] === select.value);
        item.hidden = !fits;
        shown += fits;
      }
      report(shown, items.length);
    };
    selects.forEach(([select]) => select.addEventListener("change", apply));
    apply();
  };
  filter(
    all("tr[data-row]", table),
    [[byId("row-arm"), "arm"], [byId("row-task"), "task"]],
    (shown, total) => {
      byId("row-count").textContent = shown === total ? `${total} rows` : `${shown} of ${total} rows`;
      for (const body of table.tBodies) {
        const rows = all("tr[data-row]", body);
        const visible = rows.filter((row) => !row.hidden);
        // A mean over tasks says nothing beside a part of them; a benchmark's is over every row.
        const whole = rows.length ? visible.length === rows.length : shown === total;
        body.hidden = rows.length ? visible.length === 0 : !whole;
        all("tr.mean:not(.beside)", body).forEach((row) => { row.hidden = !whole; });
        rows.forEach((row) => beside(row).forEach((part) => { part.hidden = row.hidden; }));
      }
    },
  );
  const samples = all("details.sample");
  filter(
    samples,
    [[byId("sample-arm"), "arm"], [byId("sample-task"), "task"], [byId("sample-outcome"), "outcome"]],
    (shown, total) => {
      byId("sample-count").textContent = shown === total ? `${total} samples` : `${shown} of ${total} samples`;
      byId("no-samples").hidden = shown > 0 || total === 0;
    },
  );
  // A prompt opens at its evidence, which may stand thousands of tokens from its start.
  samples.forEach((sample) => sample.addEventListener("toggle", () => {
    const prompt = sample.querySelector(".prompt");
    const evidence = prompt.querySelector("mark");
    if (sample.open && evidence) prompt.scrollTop = evidence.offsetTop - prompt.clientHeight / 3;
  }, { once: true }));
  const toggle = byId("sample-toggle");
  toggle.addEventListener("click", () => {
    const open = toggle.getAttribute("aria-pressed") !== "true";
    toggle.setAttribute("aria-pressed", String(open));
    toggle.textContent = open ? "Close all shown" : "Open all shown";
    samples.forEach((sample) => { if (!sample.hidden) sample.open = open; });
  });
})();
