"""The style sheet of the report page."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #f6f7f9; --surface: #ffffff; --ink: #1c2330; --soft: #5c6675; --line: #dfe3e9;
  --accent: #2467c4; --good: #1d7f58;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #12161c; --surface: #1a2029; --ink: #e6eaf0; --soft: #9aa5b4; --line: #2d3643;
    --accent: #7db2f5; --good: #5cc99a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 64rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { margin: 0; font-size: 2rem; line-height: 1.2; letter-spacing: -0.015em; }
h2 { margin: 0 0 0.75rem; font-size: 1.2rem; }
section { margin-top: 2.5rem; }
.facts, .note { color: var(--soft); margin: 0.4rem 0 0; }
.note { font-size: 0.9rem; margin: 0.5rem 0 0.9rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.75rem; }
.tile, .card, figure, .samples, .pairs {
  background: var(--surface); border: 1px solid var(--line); border-radius: 10px;
}
.tile { display: flex; flex-direction: column; padding: 0.9rem 1.1rem; }
.tile .name { color: var(--soft); font-size: 0.9rem; font-weight: 600; }
.tile .value {
  color: var(--accent); font-size: 2.1rem; font-weight: 650; line-height: 1.25;
  font-variant-numeric: tabular-nums;
}
.tile .hint { color: var(--soft); font-size: 0.8rem; }
.signatures {
  display: grid; grid-template-columns: auto 1fr; gap: 0.15rem 0.9rem; margin: 0.9rem 0 0;
  color: var(--soft); font-size: 0.8rem;
}
.signatures dd { margin: 0; font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
.curves, .cards {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 0.75rem;
}
figure { margin: 0; padding: 0.5rem; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: inherit !important; }
table { border-collapse: collapse; }
.samples, .pairs { width: 100%; border-collapse: separate; border-spacing: 0; overflow: hidden; }
.samples th, .samples td, .pairs th, .pairs td {
  padding: 0.55rem 0.9rem; text-align: start; vertical-align: top;
}
.samples tr + tr td, .samples tbody td, .pairs tr + tr > * { border-top: 1px solid var(--line); }
.samples th { color: var(--soft); font-size: 0.85rem; font-weight: 600; }
.samples span { display: block; overflow-wrap: anywhere; }
.samples .exact span::after { content: " \\2713"; color: var(--good); font-weight: 700; }
.samples .number { font-variant-numeric: tabular-nums; text-align: end; white-space: nowrap; }
.samples th:last-child { text-align: end; }
.card { padding: 0.9rem 1.1rem; min-width: 0; overflow-x: auto; }
.card p { margin: 0 0 0.25rem; }
.card p + p { margin-bottom: 0.75rem; color: var(--soft); }
.card table { font-size: 0.85rem; }
summary { cursor: pointer; }
summary h2 { display: inline-block; margin: 0 0 0.75rem; }
.pairs th { width: 40%; font-weight: 500; overflow-wrap: anywhere; }
.pairs td { color: var(--soft); overflow-wrap: anywhere; }
.pairs { font-size: 0.9rem; }
@media (max-width: 40rem) {
  main { padding: 1.5rem 0.9rem 3rem; }
  h1 { font-size: 1.6rem; }
  .tiles { grid-template-columns: 1fr 1fr; }
  .samples thead { display: none; }
  .samples tr { display: block; padding: 0.6rem 0; }
  .samples tr + tr { border-top: 1px solid var(--line); }
  .samples tbody td { display: grid; grid-template-columns: 5.5rem 1fr; border: 0;
    padding: 0.15rem 0.9rem; text-align: start; }
  .samples tbody .number { text-align: start; }
  .samples td::before { content: attr(data-name); color: var(--soft); font-size: 0.85rem; }
}
"""
