/* SPDX-License-Identifier: Apache-2.0 */
'use strict';
(function () {
  /* Rows in the document at once; the others are kept aside. */
  var MOST = 200;
  var table = document.getElementById('vhosts');
  var heads = Array.from(table.tHead.rows[0].cells);
  var keys = heads.map(function (th) { return th.dataset.key; });
  var body = table.tBodies[0];
  var find = document.getElementById('find');
  var every = document.getElementById('every');
  var more = document.getElementById('more');
  var trouble = document.getElementById('trouble');
  var rows = [], view, timer, asking = false;

  function isText(column) { return heads[column].className === 't'; }

  function readRows(from) {
    rows = Array.from(from.rows).map(function (tr, n) {
      return { tr: tr, n: n, values: [],
        text: (tr.cells[0].textContent + ' ' +
               tr.cells[1].textContent).toLowerCase() };
    });
  }

  function value(row, column) {
    if (row.values[column] === undefined) {
      var text = row.tr.cells[column].textContent;
      row.values[column] = isText(column) ? text.toLowerCase()
                                          : parseFloat(text) || 0;
    }
    return row.values[column];
  }

  function column(key) { return keys.indexOf(key); }

  /* The view is kept in the address: #sort=-waiting&find=shop&every=5 */
  function readView() {
    var asked = new URLSearchParams(location.hash.slice(1));
    var sort = asked.get('sort') || '';
    var down = sort.charAt(0) === '-';
    view = { sort: column(down ? sort.slice(1) : sort), down: down,
      find: asked.get('find') || '', all: false };
    find.value = view.find;
    if (asked.get('every') !== null) every.value = asked.get('every');
    if (every.selectedIndex < 0) every.value = '5';
  }

  function keepView() {
    var kept = new URLSearchParams();
    if (view.sort >= 0) kept.set('sort', (view.down ? '-' : '') + keys[view.sort]);
    if (view.find) kept.set('find', view.find);
    kept.set('every', every.value);
    history.replaceState(null, '', '#' + kept);
  }

  function compare(a, b) {
    var x = value(a, view.sort), y = value(b, view.sort);
    if (x === y) return a.n - b.n;
    return (x < y ? -1 : 1) * (view.down ? -1 : 1);
  }

  function found() {
    var words = view.find.toLowerCase().split(/\s+/);
    var list = rows.filter(function (row) {
      return words.every(function (word) { return row.text.includes(word); });
    });
    return view.sort < 0 ? list : list.sort(compare);
  }

  /* A bar behind each share of the processors. */
  function drawBars(row) {
    if (row.drawn) return;
    row.drawn = true;
    ['cpu_now', 'cpu_minute'].forEach(function (key) {
      var at = column(key);
      var part = value(row, at) / table.dataset.processors;
      if (part > 0) row.tr.cells[at].style.background =
        'linear-gradient(to left, var(--bar) ' + Math.min(part, 100) +
        '%, transparent 0)';
    });
  }

  function show() {
    var list = found();
    var shown = view.all ? list : list.slice(0, MOST);
    var part = document.createDocumentFragment();
    shown.forEach(function (row) { drawBars(row); part.append(row.tr); });
    body.replaceChildren(part);
    document.getElementById('count').textContent = list.length === rows.length
      ? rows.length + ' sites' : list.length + ' of ' + rows.length + ' sites';
    more.hidden = shown.length === list.length;
    more.textContent = 'Show all ' + list.length;
    heads.forEach(function (th, n) {
      if (n === view.sort)
        th.setAttribute('aria-sort', view.down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
  }

  function segment(bar, name, share, className) {
    var span = document.createElement('span');
    span.textContent = name + ' ' + share.toFixed(share < 10 ? 1 : 0) + ' %';
    span.title = span.textContent;
    span.style.flexGrow = share;
    span.className = share < 4 ? className + ' narrow' : className;
    if (share < 4) span.textContent = '';
    bar.append(span);
  }

  /* The CPU time in use: the first six sites, the others together, and what is idle. */
  function drawShares() {
    var bar = document.getElementById('share');
    var at = column('cpu_now'), left = 100, others = 0;
    bar.replaceChildren();
    rows.filter(function (row) { return value(row, at) > 0; })
      .sort(function (a, b) { return value(b, at) - value(a, at); })
      .forEach(function (row, n) {
        var share = value(row, at) / table.dataset.processors;
        left -= share;
        if (n < 6) segment(bar, row.tr.cells[0].textContent, share, '');
        else others += share;
      });
    if (others) segment(bar, 'others', others, '');
    if (left > 0) segment(bar, 'not used by sites', left, 'idle');
    bar.hidden = false;
  }

  function take(page) {
    var facts = document.getElementById('facts');
    facts.replaceWith(document.importNode(page.getElementById('facts'), true));
    readRows(document.importNode(page.getElementById('vhosts').tBodies[0], true));
    drawShares();
    show();
  }

  function refresh() {
    var began = Date.now();
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    fetch(location.pathname + location.search,
          { cache: 'no-store', credentials: 'same-origin' })
      .then(function (answer) {
        if (!answer.ok) throw new Error('the server says ' + answer.status);
        return answer.text();
      })
      .then(function (text) {
        /* Without its head, whose style our policy does not know. */
        take(new DOMParser().parseFromString(
          text.slice(text.indexOf('<body>')), 'text/html'));
        trouble.textContent = '';
      })
      .catch(function (error) {
        trouble.textContent = 'Not refreshed: ' + error.message;
      })
      .then(function () { asking = false; again(Date.now() - began); });
  }

  /* A page that takes long is not asked for too often. */
  function again(took) {
    clearTimeout(timer);
    if (every.value === '0') return;
    timer = setTimeout(function () {
      if (document.hidden) again(took); else refresh();
    }, Math.max(every.value * 1000, took * 10));
  }

  function sortBy(at) {
    view.down = view.sort === at ? !view.down : !isText(at);
    view.sort = at;
    keepView();
    show();
  }

  heads.forEach(function (th, n) {
    var button = document.createElement('button');
    button.type = 'button';
    button.textContent = th.textContent;
    button.addEventListener('click', function () { sortBy(n); });
    th.replaceChildren(button);
  });
  find.addEventListener('input', function () {
    view.find = find.value.trim();
    keepView();
    show();
  });
  every.addEventListener('change', function () { keepView(); again(0); });
  more.addEventListener('click', function () { view.all = true; show(); });
  document.getElementById('refresh').addEventListener('click', refresh);
  addEventListener('hashchange', function () { readView(); show(); again(0); });

  readRows(body);
  readView();
  document.getElementById('tools').hidden = false;
  drawShares();
  show();
  again(0);
}());
