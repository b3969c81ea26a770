/* SPDX-License-Identifier: Apache-2.0 */
'use strict';
(function () {
  /* Rows in the document at once. */
  var MOST = 200;
  var LIMIT = 'l', DRYRUN = 'd', CLASSES = 'c';

  function value(key) { return function (site) { return site[key]; }; }
  function tenths(key, unit) {
    return function (site) { return Math.round(site[key] / unit) / 10; };
  }
  function percent(key) { return tenths(key, 1); }
  function ms(key) { return tenths(key, 100); }
  function state(site) {
    return site.limited_s ? 'limited ' + site.limited_s + ' s' : site.state;
  }
  function classes(site) {
    return site.classes.map(function (c) {
      return c.name + ': weight ' + c.weight + ', ' + c.waiting + ' waiting, ' + (c.cpu_permille / 10).toFixed(1) + ' % CPU';
    }).join('\n');
  }

  /* Key in the address, heading, title, value of a site, kind.  A text is aligned left. */
  var columns = [
    ['vhost', 'Site', 'ServerName, or @ and the VhostLimitGroup', value('name')],
    ['state', 'State', 'idle; running; waiting: requests are queued; capped: VhostLimitConcurrency is reached; limited, and since when', state],
    ['running', 'Running', 'requests that are being worked on', value('running')],
    ['waiting', 'Waiting', 'requests queued for a slot', value('waiting')],
    ['deferred', 'Deferred', 'connections that wait, unread, because the queue is full', value('deferred')],
    ['clients', 'Clients', 'clients with queued or deferred requests', value('clients_waiting')],
    ['refused', 'Refused', 'requests refused since the start', value('refused')],
    ['cpu_now', 'CPU now %', 'CPU time charged in the last 2 to 4 s, 100 is one processor', percent('cpu_now_permille')],
    ['cpu_minute', 'CPU 1 min %', 'CPU time charged in the last minute, 100 is one processor', percent('cpu_minute_permille')],
    ['database', 'Database %', 'CPU time of its sessions in MariaDB and PostgreSQL in the last second, 100 is one processor', percent('database_now_permille')],
    ['p50', 'Wait p50 ms', 'median time in the queue since the start', ms('wait_p50_us')],
    ['p99', 'Wait p99 ms', '99th percentile of the time in the queue since the start', ms('wait_p99_us')],
    ['requests', 'Requests', 'requests admitted since the start', value('requests')],
    ['queued', 'Queued', 'of them, those that were queued first', value('queued')],
    ['late', 'Late', 'requests put behind others because they had waited for longer than clients of the site do', value('late')],
    ['would_queue', 'Would queue', 'requests that On would have queued', value('would_queue'), DRYRUN],
    ['would_refuse', 'Would refuse', 'requests that On would have refused', value('would_refuse'), DRYRUN],
    ['weight', 'Weight', 'VhostLimitWeight', value('weight'), LIMIT],
    ['concurrency', 'Concurrency', 'VhostLimitConcurrency; empty: no limit', value('concurrency'), LIMIT],
    ['queue', 'Queue', 'VhostLimitQueue', value('queue'), LIMIT],
    ['cpu', 'CPU cap %', 'VhostLimitCPU; empty: no cap', value('cpu'), LIMIT],
    ['mode', 'Mode', 'VhostLimit', value('mode')],
    ['method', 'Queued as', 'socket: without a thread; thread: with a thread; none: requests are admitted or refused at once', value('method')],
    ['cost', 'Cost from', 'source of the CPU time of back ends. processes: measured; unknown: not found; remote: on another machine; thread: no back end was used yet', value('cost')],
    ['killed', 'Killed', 'processes that the kernel killed for lack of memory', value('memory_kills')],
    ['classes', 'Classes', 'VhostLimitClass: weight, queued and deferred requests, part of the CPU time that was charged while requests of the site were queued', classes, CLASSES],
    ['cgroup', 'Cgroup', 'name of the site\'s group below the tree\'s root',
      function (site) { return site.cgroup.replace(/.*\//, ''); }]
  ].map(function (c) { return { key: c[0], text: c[1], title: c[2], of: c[3], kind: c[4] }; });

  function at(id) { return document.getElementById(id); }
  var table = at('vhosts'), find = at('find'), every = at('every'), more = at('more');
  var me = new URLSearchParams(location.search).has('me') ? 'me&' : '';
  var page, rows = [], view, timer, asking = false;

  function element(tag, text, className) {
    var made = document.createElement(tag);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function sum(key) {
    return page.vhosts.reduce(function (all, site) { return all + site[key]; }, 0);
  }

  /* --- above the table ------------------------------------------------------ */

  function drawFacts() {
    var up = page.uptime_s, hosts = page.hosts;
    function two(n) { return String(Math.floor(n)).padStart(2, '0'); }
    at('facts').textContent = page.module + ', MPM ' + page.mpm + ', ' + page.children + ' children, up ' +
      Math.floor(up / 86400) + ' d ' + Math.floor(up / 3600 % 24) + ':' + two(up / 60 % 60) + ':' + two(up % 60) +
      ', cgroup backend ' + page.cgroup.backend + ' ' + page.cgroup.path + page.cgroup.reason +
      ', ' + page.state.is + ' for ' + page.state.since_s + ' s' +
      (page.state.is === 'engaged' ? ' because of ' + page.state.why : '') +
      (page.cgroup.outside ? '; ' + page.cgroup.outside + '\'s programs are in no site\'s group: no limit of a site holds for them' : '') +
      (hosts ? '; ' + hosts.named + ' host names of at most ' + hosts.limit + ' have an account, the busiest ' + hosts.shown + ' are shown' : '');
    [page.sampler.state !== 'runs' && '; the state of the sampler is "' + page.sampler.state + '": see vhostlimitctl doctor',
      page.unenforced && '; ' + page.unenforced + ' sites have a limit that the kernel does not enforce: see "unenforced" in JSON'
    ].forEach(function (warning) { if (warning) at('facts').append(element('b', warning)); });
  }

  function drawTiles() {
    at('tiles').replaceChildren.apply(at('tiles'), [
      ['Running', sum('running'), (sum('runnable_permille') / 1000).toFixed(1) + ' of ' + page.slots + ' slots held'],
      ['Waiting', sum('waiting'), sum('queued') + ' were queued'],
      ['Refused', sum('refused'), sum('requests') + ' admitted'],
      ['CPU charged now', Math.floor(sum('cpu_now_permille') / 10) + ' %',
        'of ' + page.processors + '00 %; ' + Math.floor(sum('cpu_minute_permille') / 10) + ' % over a minute'],
      ['Limited sites', page.vhosts.filter(function (site) { return site.limited_s; }).length, 'of ' + page.vhosts.length]
    ].map(function (tile) {
      var div = element('div', ''), value = element('dd', tile[1]);
      value.append(element('small', tile[2]));
      div.append(element('dt', tile[0]), value);
      return div;
    }));
  }

  function segment(name, share, className) {
    var text = name + ' ' + share.toFixed(share < 10 ? 1 : 0) + ' %';
    var span = element('span', share < 4 ? '' : text, share < 4 ? className + ' narrow' : className);
    span.title = text;
    span.style.flexGrow = share;
    at('share').append(span);
  }

  /* The CPU time in use: the first six sites, the others together, and what is idle. */
  function drawShares() {
    var left = 100, others = 0;
    at('share').replaceChildren();
    page.vhosts.filter(function (site) { return site.cpu_now_permille; })
      .sort(function (a, b) { return b.cpu_now_permille - a.cpu_now_permille; })
      .forEach(function (site, n) {
        var share = site.cpu_now_permille / 10 / page.processors;
        left -= share;
        if (n < 6) segment(site.name, share, '');
        else others += share;
      });
    if (others) segment('others', others, '');
    if (left > 0) segment('not used by sites', left, 'idle');
    at('share').hidden = false;
  }

  /* --- the table ------------------------------------------------------------ */

  function isText(column) { return typeof column.of(page.vhosts[0]) === 'string'; }

  function cellOf(column, site) {
    var value = column.of(site), cell = element('td', '');
    if (column.key === 'vhost') {
      cell.textContent = value;
      if (site.host_of) cell.append(element('small', ' of ' + site.host_of));
    } else if (column.key === 'state') {
      cell.className = 't';
      cell.append(element('span', value, 'state ' + value.split(' ')[0]));
    } else if (typeof value === 'string') {
      cell.className = 't';
      cell.textContent = value;
    } else if (value) {
      cell.textContent = value.toFixed(column.kind !== LIMIT && /%|ms/.test(column.text) ? 1 : 0);
    }
    if (column.kind === LIMIT && column.key in site.overridden) {
      cell.className = 'set';
      cell.title = 'set by vhostlimitctl';
    }
    /* A bar behind each share of the processors. */
    if (/^cpu_/.test(column.key) && value) cell.style.background = 'linear-gradient(to left, var(--bar) ' +
      Math.min(value / page.processors, 100) + '%, transparent 0)';
    return cell;
  }

  function isShown(column) {
    return column.kind === DRYRUN ? page.vhosts.some(function (site) { return site.mode === 'dryrun'; })
      : column.kind === CLASSES ? page.vhosts.some(function (site) { return site.classes.length; }) : true;
  }

  /* The view is kept in the address: #sort=-waiting&find=shop&every=5 */
  function readView() {
    var asked = new URLSearchParams(location.hash.slice(1));
    var sort = asked.get('sort') || '';
    var down = sort.charAt(0) === '-';
    view = { sort: down ? sort.slice(1) : sort, down: down, find: asked.get('find') || '', all: false };
    find.value = view.find;
    if (asked.get('every') !== null) every.value = asked.get('every');
    if (every.selectedIndex < 0) every.value = '5';
  }

  function keepView() {
    var kept = new URLSearchParams();
    if (view.sort) kept.set('sort', (view.down ? '-' : '') + view.sort);
    if (view.find) kept.set('find', view.find);
    kept.set('every', every.value);
    history.replaceState(null, '', '#' + kept);
  }

  function found() {
    var words = view.find.toLowerCase().split(/\s+/);
    var by = columns.find(function (column) { return column.key === view.sort; });
    var list = rows.filter(function (row) {
      return words.every(function (part) { return row.text.includes(part); });
    });
    if (!by) return list;
    list.forEach(function (row) {
      row.value = by.of(row.site);
      if (typeof row.value === 'string') row.value = row.value.toLowerCase();
    });
    return list.sort(function (a, b) {
      if (a.value === b.value) return a.n - b.n;
      return (a.value < b.value ? -1 : 1) * (view.down ? -1 : 1);
    });
  }

  function drawHeads(shown) {
    table.tHead.rows[0].replaceChildren.apply(table.tHead.rows[0], shown.map(function (column) {
      var th = element('th', '', isText(column) ? 't' : ''), button = element('button', column.text);
      th.scope = 'col';
      th.dataset.key = column.key;
      th.title = column.title;
      if (column.key === view.sort) th.setAttribute('aria-sort', view.down ? 'descending' : 'ascending');
      button.type = 'button';
      button.addEventListener('click', function () { sortBy(column); });
      th.append(button);
      return th;
    }));
  }

  function show() {
    if (!page) return;
    var list = found(), focused = document.activeElement.closest('th');
    var shown = page.vhosts.length ? columns.filter(isShown) : [];
    drawHeads(shown);
    if (focused) table.querySelector('th[data-key=' + focused.dataset.key + '] button').focus();
    table.tBodies[0].replaceChildren.apply(table.tBodies[0], (view.all ? list : list.slice(0, MOST)).map(function (row) {
      var tr = element('tr', '');
      shown.forEach(function (column) { tr.append(cellOf(column, row.site)); });
      return tr;
    }));
    at('count').textContent = (list.length === rows.length ? '' : list.length + ' of ') + rows.length + ' sites';
    more.hidden = view.all || list.length <= MOST;
    more.textContent = 'Show all ' + list.length;
  }

  function sortBy(column) {
    view.down = view.sort === column.key ? !view.down : !isText(column);
    view.sort = column.key;
    keepView();
    show();
  }

  /* --- the data ------------------------------------------------------------- */

  function take(answer) {
    page = answer;
    rows = page.vhosts.map(function (site, n) {
      return { site: site, n: n, text: (site.name + ' ' + state(site)).toLowerCase() };
    });
    drawFacts();
    drawTiles();
    drawShares();
    show();
  }

  function refresh() {
    var began = Date.now();
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    fetch(location.pathname + '?' + me + 'json', { cache: 'no-store', credentials: 'same-origin' })
      .then(function (answer) {
        if (!answer.ok) throw new Error('the server says ' + answer.status);
        return answer.json();
      })
      .then(function (answer) {
        take(answer);
        at('trouble').textContent = '';
      })
      .catch(function (error) { at('trouble').textContent = 'Not refreshed: ' + error.message; })
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

  find.addEventListener('input', function () {
    view.find = find.value.trim();
    keepView();
    show();
  });
  every.addEventListener('change', function () { keepView(); again(0); });
  more.addEventListener('click', function () { view.all = true; show(); });
  at('refresh').addEventListener('click', refresh);
  addEventListener('hashchange', function () { readView(); show(); again(0); });
  document.querySelectorAll('footer a').forEach(function (link) {
    link.href = '?' + me + link.getAttribute('href').slice(1);
  });
  readView();
  refresh();
}());
