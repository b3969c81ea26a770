-- SPDX-License-Identifier: Apache-2.0
-- The end of a wrk run as one line of JSON on stderr.  Times are in seconds; times has
-- the response time in the middle of each class of load.jq, and the percent of the
-- answers that are in the class.

-- With a number as argument each request has another host name, one of so many below that
-- of the site.
init = function(args)
  local hosts, site = tonumber(args[1]), wrk.headers['Host']
  if not hosts then return end
  math.randomseed(os.time())
  request = function()
    wrk.headers['Host'] = string.format('h%d.%s', math.random(hosts), site)
    return wrk.format()
  end
end

done = function(summary, latency)
  local e = summary.errors
  local function at(percent) return string.format('%.6f', latency:percentile(percent) / 1e6) end
  local times = {}
  local function class(middle, percent) times[#times + 1] = '[' .. at(middle) .. ',' .. percent .. ']' end
  for i = 0, 98 do class(i + 0.5, 1) end
  for i = 0, 8 do class(99.05 + 0.1 * i, 0.1) end
  for i = 0, 9 do class(99.905 + 0.01 * i, 0.01) end
  io.stderr:write(string.format(
    '{"requests":%d,"elapsed":%.6f,"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,' ..
    '"mean":%.6f,"longest":%.6f,"p50":%s,"p90":%s,"p99":%s,"p999":%s,"times":[%s]}\n',
    summary.requests, summary.duration / 1e6,
    e.status, e.connect, e.read, e.write, e.timeout,
    latency.mean / 1e6, latency.max / 1e6, at(50), at(90), at(99), at(99.9), table.concat(times, ',')))
end
