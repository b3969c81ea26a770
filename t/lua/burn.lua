-- SPDX-License-Identifier: Apache-2.0
-- Burns some CPU time in the worker's own thread and tells that thread's groups.
function handle(r)
  local start = os.clock()
  local n = 0
  repeat
    for i = 1, 100000 do n = n + i end
  until os.clock() - start > 0.05
  r.content_type = "text/plain"
  for line in io.lines("/proc/thread-self/cgroup") do r:puts(line .. "\n") end
  return apache2.OK
end
