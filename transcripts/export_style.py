"""The style and the script of the exported page."""

STYLE = """
:root{--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--soft:#f6f8fa;--user:#ddf4ff;--mark:#bc4c00;
--add:#dafbe1;--del:#ffebe9;--bad:#cf222e;--size:#0969da}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#8b949e;--line:#30363d;--soft:#161b22;
--user:#0c2d6b;--mark:#f0883e;--add:#12391f;--del:#4b1a1d;--bad:#ff7b72;--size:#58a6ff}}
*{box-sizing:border-box}
html{background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif;-webkit-text-size-adjust:100%}
body{max-width:60rem;margin:0 auto;padding:0 .75rem 4rem}
h1{font-size:1.3rem;margin:1rem 0 .25rem;overflow-wrap:anywhere}
h2{font-size:.8rem;margin:0;color:var(--dim);font-weight:600}
h2 a{color:inherit;font-weight:400}time{font-weight:400;float:right}
.about,figcaption{color:var(--dim);font-size:.85rem;margin:.25rem 0;overflow-wrap:anywhere}
.search{position:sticky;top:0;background:var(--bg);padding:.4rem 0;margin:0;
display:flex;gap:.5rem;align-items:center;flex-wrap:wrap}
input,button{font:inherit;color:inherit;background:var(--soft);border:1px solid var(--line);
border-radius:.4rem;padding:.35rem .6rem}
input{flex:1;min-width:10rem}
article{margin:.6rem 0;padding:.5rem .75rem;border:1px solid var(--line);border-radius:.5rem}
article.user{background:var(--user)}
article.result,article.error{padding:0 .75rem;border-style:dashed}
article.error summary{color:var(--bad)}
article.compaction{border:2px solid var(--mark)}
article.compaction>details>summary{color:var(--mark);font-weight:600}
article p{margin:.4rem 0;white-space:pre-wrap;overflow-wrap:anywhere}
pre{margin:.4rem 0;padding:.5rem;background:var(--soft);border-radius:.4rem;
font:.8rem/1.45 ui-monospace,monospace;
white-space:pre-wrap;overflow-wrap:anywhere;max-height:40rem;overflow:auto}
.md{overflow-wrap:anywhere}.md>:first-child{margin-top:.3rem}.md>:last-child{margin-bottom:.3rem}
.md p,.md td,.md th{white-space:normal}
.md h1,.md h2,.md h3,.md h4{font-size:1rem;color:inherit;margin:.8rem 0 .3rem}
.md h1{font-size:1.2rem}.md h2{font-size:1.1rem}.md li>p{margin:.1rem 0}
.md code{background:var(--soft);border-radius:.25rem;padding:0 .2rem;font:.85em ui-monospace,monospace}
.md pre code{padding:0;font:inherit}.md a{color:var(--size)}
.md table{display:block;overflow-x:auto;border-collapse:collapse}
.md td,.md th{border:1px solid var(--line);padding:.15rem .5rem}
.md blockquote{margin:.4rem 0;padding-left:.75rem;border-left:3px solid var(--line);color:var(--dim)}
summary{cursor:pointer;font:.85rem/1.8 ui-monospace,monospace;overflow:hidden;text-overflow:ellipsis;
white-space:nowrap}
.thinking{color:var(--dim)}.add{background:var(--add)}.del{background:var(--del)}.at{color:var(--dim)}
.cut{color:var(--bad)}
img{max-width:100%}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 .75rem;margin:.4rem 0;font-size:.85rem}
dd{margin:0;overflow-wrap:anywhere}dt{color:var(--dim)}
figure{margin:.75rem 0}svg{width:100%;height:auto;background:var(--soft);border-radius:.4rem}
.area{fill:var(--size);opacity:.15}.size{fill:none;stroke:var(--size);stroke-width:2}
.mark{stroke:var(--mark);stroke-width:2;stroke-dasharray:5 4}
.hidden{display:none}
@media print{.search{display:none}pre{max-height:none}}
"""

SCRIPT = """
(() => {
  const find = document.getElementById('find'), found = document.getElementById('found');
  const button = document.getElementById('open');
  const all = [...document.querySelectorAll('article')];
  let words = null;
  const search = () => {
    words = words || all.map(one => one.textContent.toLowerCase());
    const wanted = find.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let count = 0;
    all.forEach((one, index) => {
      const fits = wanted.every(word => words[index].includes(word));
      one.classList.toggle('hidden', !fits);
      if (fits && wanted.length) {
        count += 1;
        if (count <= 50) one.querySelectorAll('details').forEach(each => {
          if (wanted.some(word => each.textContent.toLowerCase().includes(word))) each.open = true;
        });
      }
    });
    found.textContent = wanted.length ? count + ' found' : '';
  };
  find.addEventListener('input', search);
  button.addEventListener('click', () => {
    const open = button.textContent === 'open all';
    document.querySelectorAll('details').forEach(one => { one.open = open; });
    button.textContent = open ? 'close all' : 'open all';
  });
  document.addEventListener('keydown', event => {
    if (event.key === '/' && document.activeElement !== find) { event.preventDefault(); find.focus(); }
  });
  const aim = () => {
    const one = document.getElementById(location.hash.slice(1));
    if (one) one.querySelectorAll('details').forEach(each => { each.open = true; });
  };
  addEventListener('hashchange', aim);
  aim();
  if (new URLSearchParams(location.search).has('q')) {
    find.value = new URLSearchParams(location.search).get('q');
    search();
  }
})();
"""
