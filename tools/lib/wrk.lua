-- SPDX-License-Identifier: Apache-2.0
-- The end of a wrk run as one line of JSON on stderr (times in seconds).

done = function(summary, latency)
  local e = summary.errors
  io.stderr:write(string.format(
    '{"requests":%d,"elapsed":%.6f,"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,' ..
    '"mean":%.6f,"longest":%.6f,"p50":%.6f,"p99":%.6f}\n',
    summary.requests, summary.duration / 1e6,
    e.status, e.connect, e.read, e.write, e.timeout,
    latency.mean / 1e6, latency.max / 1e6,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
