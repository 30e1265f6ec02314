(() => {
  const find = document.getElementById('find'), found = document.getElementById('found');
  const button = document.getElementById('open');
  const all = [...document.querySelectorAll('article')];
  let words = null;
  const search = () => {
    words = words || all.map(one => one.textContent.toLowerCase());
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
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
    const open = button.textContent === 'expand all';
    document.querySelectorAll('details').forEach(one => { one.open = open; });
    button.textContent = open ? 'collapse all' : 'expand all';
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
