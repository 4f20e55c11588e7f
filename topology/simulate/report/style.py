"""How the page looks: in light and dark, on paper, and on a phone. Colours after Okabe and Ito, who tested them."""

from __future__ import annotations

_LIGHT = """
  --ink: #16202c; --faint: #56616e; --paper: #ffffff; --card: #f5f7f9; --rule: #d8dee4; --link: #0b5cad;
  --bad: #b3261e; --shade: #e9b44c55; --heat: #0072b2; --good: #00664a;
  --c0: #0072b2; --c1: #d55e00; --c2: #00835f; --c3: #b5508f; --c4: #b07a00; --c5: #2a93cf;
  --c6: #16202c; --c7: #6f5ba7;
"""
_DARK = """
  --ink: #e6ebf0; --faint: #a3aebb; --paper: #12171d; --card: #1b222a; --rule: #37414c; --link: #7db8f2;
  --bad: #ff8a80; --shade: #e9b44c40; --heat: #56b4e9; --good: #52d1a5;
  --c0: #4fa8e0; --c1: #f58a3c; --c2: #2fc497; --c3: #e493c3; --c4: #f0c040; --c5: #9bdcff;
  --c6: #e6ebf0; --c7: #b3a2e8;
"""
_COLORS = "\n".join(
    f".c{n} {{ stroke: var(--c{n}); }} "
    f".dot.c{n}, .area.c{n}, .bar.c{n} {{ fill: var(--c{n}); background: var(--c{n}); }}"
    for n in range(8)
)

STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
@media print {{ :root {{ {_LIGHT} }} nav {{ display: none; }} figure, table {{ break-inside: avoid; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; padding: 1.2rem; max-width: 70rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.7rem; line-height: 1.25; margin: 0.2rem 0; }}
h2 {{ font-size: 1.25rem; margin: 2.2rem 0 0.6rem; padding-top: 0.6rem; border-top: 1px solid var(--rule); }}
h3 {{ font-size: 1.05rem; margin: 1.4rem 0 0.4rem; }}
a {{ color: var(--link); }}
p {{ margin: 0.4rem 0; max-width: 46rem; }}
.byline, .note, .none, caption {{ color: var(--faint); font-size: 0.9rem; }}
nav ul, .legend {{ display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; list-style: none; margin: 0.4rem 0; padding: 0; }}
nav {{ font-size: 0.92rem; margin-top: 0.8rem; }}
#answer ul {{ background: var(--card); border-left: 4px solid var(--link); border-radius: 4px; margin: 1rem 0;
  padding: 0.7rem 1rem 0.7rem 1.9rem; font-size: 1.05rem; }}
#answer h2 {{ border: 0; margin-top: 0.8rem; padding: 0; }}
.pictures {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem; }}
.pictures.one {{ max-width: 34rem; }}
figure {{ margin: 0; padding: 0.8rem; background: var(--card); border-radius: 6px; min-width: 0; }}
figure.broad {{ grid-column: 1 / -1; }}
figcaption {{ font-weight: 600; font-size: 0.95rem; margin-bottom: 0.3rem; }}
svg.chart {{ display: block; width: 100%; height: auto; }}
svg text {{ fill: var(--faint); font-size: 12px; text-anchor: start; }}
svg text.end {{ text-anchor: end; }} svg text.middle {{ text-anchor: middle; }}
svg text.told {{ fill: var(--ink); font-weight: 600; paint-order: stroke; stroke: var(--card); stroke-width: 4px; }}
svg text.on {{ fill: var(--paper); font-weight: 700; font-size: 11px; }}
svg text.ink {{ fill: var(--ink); }}
.grid {{ stroke: var(--rule); stroke-width: 1; }} .axis {{ stroke: var(--faint); stroke-width: 1; }}
.limit {{ stroke: var(--bad); stroke-width: 1.2; stroke-dasharray: 4 3; }}
.s {{ fill: none; stroke-width: 2; stroke-linejoin: round; }} path.s:hover {{ stroke-width: 4; }}
.area {{ stroke: none; opacity: 0.18; }}
.band {{ fill: var(--faint); background: var(--faint); opacity: 0.25; }}
.span {{ fill: var(--shade); background: var(--shade); }}
.dot {{ stroke: var(--card); stroke-width: 1.5; }}
.ring {{ fill: none; stroke: var(--good); stroke-width: 2.5; }}
.mark {{ stroke: var(--ink); stroke-width: 1.1; opacity: 0.75; }}
circle.badge {{ fill: var(--ink); }}
.cell {{ fill: var(--heat); stroke: var(--rule); stroke-width: 0.5; }}
.empty {{ fill: none; stroke: var(--rule); stroke-width: 0.5; }}
.legend {{ font-size: 0.85rem; }} .legend li {{ display: flex; align-items: center; gap: 0.35rem; }}
.swatch {{ width: 30px; height: 12px; flex: none; display: inline-block; }}
b.badge {{ background: var(--ink); color: var(--paper); border-radius: 1em; min-width: 1.35em; text-align: center;
  font-size: 0.75rem; padding: 0 0.35em; flex: none; }}
.bars {{ display: grid; grid-template-columns: minmax(6rem, max-content) 1fr max-content; gap: 0.3rem 0.6rem;
  align-items: center; font-size: 0.88rem; margin: 0; }}
.bars dt {{ grid-column: 1; }} .bars dd {{ margin: 0; }} .bars dd.told {{ font-variant-numeric: tabular-nums; }}
.bar {{ display: block; height: 0.95rem; border-radius: 2px; min-width: 2px; }}
.wide {{ overflow-x: auto; margin: 0.6rem 0; }}
table {{ border-collapse: collapse; font-size: 0.88rem; width: max-content; overflow-wrap: break-word; }}
.facts table {{ width: auto; min-width: 40%; }} .facts td {{ overflow-wrap: anywhere; }}
caption {{ text-align: left; padding-bottom: 0.3rem; }}
th, td {{ padding: 0.28rem 0.7rem 0.28rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); }}
th {{ color: var(--faint); font-weight: 600; }}
.number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
td.word {{ max-width: 26rem; }}
.best {{ color: var(--good); font-weight: 600; }} .bad {{ color: var(--bad); font-weight: 600; }}
details {{ margin: 0.5rem 0; }} summary {{ cursor: pointer; color: var(--link); }}
pre {{ background: var(--card); padding: 0.7rem; border-radius: 6px; overflow-x: auto;
  font-size: 0.82rem; line-height: 1.4; }}
{_COLORS}
@media (max-width: 40rem) {{
  body {{ padding: 0.8rem; }} figure {{ padding: 0.5rem; }}
  svg text {{ font-size: 15px; }} svg text.on {{ font-size: 12px; }}
}}
"""
