// The page: asks /live once a second and draws what it says; ranks and clicks by the public interface.

const at = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const points = [];

function headers() {
  const token = at("token").value;
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: headers() });
  if (!answer.ok) throw new Error((await answer.json()).error ?? "events were refused");
  return answer;
}

const post = async (path, body) => (await ask(path, { method: "POST", body: body && JSON.stringify(body) })).json();

// told apart by people who see red and green alike, on light and on dark
const COLOURS = ["#2a86d9", "#e08a1e", "#1aa179", "#c061cb", "#d3545a"];

// -- charts ---------------------------------------------------------------------------------------------------

function draw(id, traces, axes = {}) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--soft").trim(), line = style.getPropertyValue("--line").trim();
  const axis = { gridcolor: line, zerolinecolor: line, automargin: true };
  const layout = {
    margin: { l: 8, r: 8, t: 8, b: 8 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { color: ink, size: 12 }, legend: { orientation: "h", y: -0.15, yanchor: "top" }, showlegend: true,
    xaxis: { ...axis, type: "date", nticks: 4, tickangle: 0, tickformat: "%H:%M:%S", hoverformat: "%H:%M:%S", range: axes.range },
    yaxis: { ...axis, rangemode: "tozero", nticks: 6, ...axes.left }, colorway: COLOURS, shapes: axes.marks ?? [],
    hovermode: "x unified", hoverlabel: { bgcolor: style.getPropertyValue("--card").trim() },
  };
  if (axes.right) layout.yaxis2 = { ...axis, rangemode: "tozero", overlaying: "y", side: "right", tickmode: "auto", nticks: 5, showgrid: false, ...axes.right };
  Plotly.react(id, traces, layout, { displayModeBar: false, responsive: true });
}

function trace(name, value, more = {}) {
  return { name, mode: "lines", line: { width: 2.5 }, x: points.map((p) => new Date(1000 * p.time)), y: points.map(value), ...more };
}

const total = (p) => p.events.events ?? 0;
const rate = (value) => (p, k) => {
  const before = points[k - 1];
  return before ? Math.max(0, (value(p) - value(before)) / (p.time - before.time)) : null;
};

function charts(now) {
  const models = Object.keys(now.models);
  const quality = (name, metric) => (p) => p.models[name]?.quality[metric] ?? null;
  draw("quality", models.map((name) => trace(name, quality(name, "ndcg@10"))), { left: { range: [0, 1] } });
  draw("flow", [
    trace("events/s", rate(total), { fill: "tozeroy", fillcolor: `${COLOURS[0]}33` }),
    trace("lag, ms", (p) => p.lag_ms, { yaxis: "y2", line: { width: 2, dash: "dot" } }),
  ], { right: {} });
  const spectrum = (name, part) => (p) => p.models[name]?.spectrum?.[part] ?? null;
  const first = models.find((name) => now.models[name].spectrum);
  const decades = Math.max(1, ...points.map((p) => Math.ceil(Math.log10(spectrum(first, "condition")(p) ?? 1))));
  at("no-spectrum").hidden = Boolean(first);
  draw("spectrum", [
    trace("condition", spectrum(first, "condition")),
    trace("eta", spectrum(first, "eta"), { yaxis: "y2", line: { width: 2, dash: "dot" } }),
    trace("mu", spectrum(first, "mu"), { yaxis: "y2", line: { width: 2, dash: "dash" } }),
  ], { left: { type: "log", range: [0, decades], dtick: 1 }, right: {} });
  draw("refused", [
    trace("dead letters", (p) => p.events.rejected ?? 0),
    trace("refused", (p) => p.received.rejected),
    trace("duplicates", (p) => p.events.duplicates ?? 0),
    trace("late", (p) => p.events.late ?? 0),
  ]);
}

function drift(reconciled, undone) {
  const when = (done) => new Date(1000 * done.time);
  const line = (name, model, part) => {
    const of = reconciled.filter((done) => done.model === model);
    return { name, mode: "lines+markers", x: of.map(when), y: of.map((done) => done.drift[part]) };
  };
  const ordered = reconciled.filter((done) => done.drift.pairwise_error_online !== undefined);
  const models = [...new Set(ordered.map((done) => done.model))];
  const named = (text, model) => (models.length > 1 ? `${model}: ${text}` : text);
  const marks = reconciled.map((done) => ({
    type: "line", x0: when(done), x1: when(done), y0: 0, y1: 1, yref: "paper",
    line: { color: done.swapped ? COLOURS[2] : COLOURS[3], width: 1, dash: done.swapped ? "solid" : "dot" },
  }));
  draw("drift", models.flatMap((model) => [
    line(named("online", model), model, "pairwise_error_online"),
    line(named("optimum", model), model, "pairwise_error_optimal"),
  ]), { marks, left: reconciled.length ? {} : { range: [0, 0.5] }, range: points.length ? [new Date(1000 * points[0].time), new Date()] : undefined });
  const last = reconciled.at(-1);
  const back = undone.at(-1);
  const text = back && (!last || back.time > last.time)
    ? `Last: the swap ${back.rolled_back} was taken back, as NDCG fell from ${back.ndcg_before.toFixed(3)} `
    + `to ${back.ndcg_after.toFixed(3)} after it.` : last ? `Last: ${last.swapped ? `weights swapped (${last.chosen})` : "the online model stays"}, `
    + `${last.drift.cosine == null ? "" : `cosine ${last.drift.cosine.toFixed(3)}, `}${last.seconds.toFixed(1)} s.` : "Not measured yet: reconcile.";
  if (at("drifted").textContent !== text) at("drifted").textContent = text;
}

// -- tables ---------------------------------------------------------------------------------------------------

function shown(value) {
  if (typeof value !== "number") return value ?? "–";
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4);
}

// what there is to know at a glance
function figures(now) {
  const champion = now.models[now.champion], last = points.length - 1;
  const ms = (value) => (value >= 10000 ? `${Math.round(value / 1000)} s` : `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`);
  const events = last > 0 ? rate(total)(points[last], last) : null;
  const all = [
    [`NDCG@10 of ${now.champion}`, champion?.quality["ndcg@10"]?.toFixed(3)],
    ["events a second", events === null ? null : Math.round(events)],
    ["lists learnt", now.events.judged],
    ["lag", ms(now.lag_ms)],
    ["to rank, p99", champion?.requests ? ms(champion.p99_ms) : null],
  ];
  const duel = now.comparison;
  if (duel) {
    const share = (value) => `${(100 * value).toFixed(0)} %`;
    all.push([`${duel.challenger} wins (${share(duel.low)} to ${share(duel.high)})`, duel.win_rate === null ? null : share(duel.win_rate)]);
  }
  at("figures").replaceChildren(...all.map(([name, value]) => {
    const box = document.createElement("div"), term = document.createElement("dt"), figure = document.createElement("dd");
    term.textContent = name;
    figure.textContent = shown(value);
    box.append(term, figure);
    return box;
  }));
}

function table(id, columns, rows) {
  const make = (kind, cells) => {
    const row = document.createElement("tr");
    cells.forEach((cell, k) => {
      const element = document.createElement(k ? kind : "th");
      if (kind === "th" || !k) element.scope = kind === "th" ? "col" : "row";
      element.textContent = shown(cell);
      row.append(element);
    });
    return row;
  };
  at(id).replaceChildren(make("th", columns), ...rows.map((cells) => make("td", cells)));
}

function tables(now) {
  table("models", ["model", "learner", "NDCG@10", "MRR", "on shuffled", "condition", "requests", "p50 ms", "p99 ms"],
    Object.entries(now.models).map(([name, m]) => [name, m.learner, m.quality["ndcg@10"], m.quality.mrr,
      m.quality["ndcg@10_shuffled"], m.spectrum?.condition, m.requests, ...(m.requests ? [m.p50_ms, m.p99_ms] : [null, null])]));
  const columns = ["offset", "epoch", "events", "judged", "rejected", "duplicates", "late"];
  table("shards", ["shard", ...columns],
    Object.entries(now.shards).map(([name, shard]) => [name, ...columns.map((column) => shard[column])]));
}

// -- keeping up -----------------------------------------------------------------------------------------------

async function look() {
  try {
    const since = points.length ? points[points.length - 1].time : 0;
    const { now, points: fresh } = await (await ask(`/live?since=${since}`)).json();
    points.push(...fresh);
    points.splice(0, Math.max(0, points.length - 900));
    const models = Object.keys(now.models);
    if (at("model").options.length !== models.length) {
      at("model").replaceChildren(...models.map((name) => new Option(name, name)));
    }
    const state = now.degraded ? (now.degraded === true ? "nothing learnt yet" : `degraded: ${now.degraded}`)
      : `learning; ${shown(total(now))} events, version ${now.version}`;
    if (at("state").textContent !== state) at("state").textContent = state;
    at("state").classList.toggle("bad", typeof now.degraded === "string");
    figures(now);
    charts(now);
    drift(now.reconciled, now.rolled_back);
    tables(now);
  } catch (error) {
    at("state").textContent = `no answer: ${error.message}`;
    at("state").classList.add("bad");
  }
}

// -- a ranking ------------------------------------------------------------------------------------------------

function wanted() {
  const items = at("items").value.split("\n").map((line) => line.trim().split(/\s+/)).filter((words) => words[0]);
  return items.map(([id, ...features]) => ({
    id,
    fields: features.map((feature) => {
      const [name, value] = feature.split("=");
      return { name, value: value !== undefined && value !== "" && isFinite(value) ? Number(value) : value ?? true };
    }),
  }));
}

async function rank(clicked) {
  const items = wanted();
  const answer = await post(`/rank/${encodeURIComponent(at("model").value)}`, { items });
  const byId = new Map(items.map((item) => [item.id, item]));
  const scores = answer.items.map((one) => one.score), low = Math.min(...scores), high = Math.max(...scores);
  at("ranked").replaceChildren(...answer.items.map(({ item, score }) => {
    const entry = document.createElement("li"), button = document.createElement("button");
    const name = document.createElement("span"), value = document.createElement("span");
    button.type = "button";
    button.style.setProperty("--share", `${high > low ? (100 * (score - low)) / (high - low) : 0}%`);
    entry.classList.toggle("clicked", item === clicked);
    name.textContent = item;
    value.textContent = score.toFixed(3);
    button.append(name, value);
    button.addEventListener("click", () => said(() => click(item, answer.items.map((one) =>
      ({ ...byId.get(one.item), team: one.team, propensity: one.propensity })))));
    entry.append(button);
    return entry;
  }));
}

async function click(item, shown) {
  const id = crypto.randomUUID(), timestamp = Date.now(), began = performance.now();
  const events = [
    { event: "ranking", id, timestamp, items: shown },
    { event: "interaction", id: `${id}-click`, timestamp: timestamp + 1, ranking: id, item, type: "click" },
  ];
  const { offset } = await post("/feedback", events);
  let learnt = false;
  while (!learnt && performance.now() - began < 15000) {
    await new Promise((done) => setTimeout(done, 20));
    const { now } = await (await ask("/live?since=inf")).json();
    learnt = (now.shards.feedback?.offset ?? 0) >= offset;
  }
  await rank(item);
  at("ranked").querySelector(".clicked button")?.focus();  // the one that was clicked is gone with the old list
  at("said").textContent = learnt ? `learnt the click on ${item} in ${Math.round(performance.now() - began)} ms`
    : "accepted; it is not learnt yet";
}

async function said(what) {
  try {
    await what();
  } catch (error) {
    at("said").textContent = error.message;
  }
}

at("try").addEventListener("submit", (event) => {
  event.preventDefault();
  said(() => rank());
});

at("reconcile").addEventListener("click", async () => {
  at("reconcile").disabled = true;
  at("kept").textContent = "reconciling; learning goes on …";
  try {
    const done = await post(`/train/${encodeURIComponent(at("model").value)}`);
    const share = (error) => `${(100 * error).toFixed(1)} %`;
    at("kept").textContent = `pairs in the wrong order: online ${share(done.drift.pairwise_error_online)}, `
      + `optimum ${share(done.drift.pairwise_error_optimal)}. `
      + (done.swapped ? `The weights were swapped (${done.chosen}).` : "The online model stays.");
    await look();
  } catch (error) {
    at("kept").textContent = error.message;
  }
  at("reconcile").disabled = false;
});

at("snapshot").addEventListener("click", async () => {
  try {
    const file = await (await ask("/snapshot", { method: "POST" })).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = "streamrank.safetensors";
    link.click();
    URL.revokeObjectURL(link.href);
    at("kept").textContent = `${file.size} bytes`;
  } catch (error) {
    at("kept").textContent = error.message;
  }
});

at("state-form").addEventListener("submit", (event) => event.preventDefault());
dark.addEventListener("change", look);
at("token").addEventListener("change", look);
await look();
setInterval(look, 1000);
