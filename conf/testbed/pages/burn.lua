-- SPDX-License-Identifier: Apache-2.0
-- burn.lua?ms=N burns about N ms of CPU time in Apache's own thread, 10 s at most.
-- Lua has no clock of its thread, so it is a fixed amount of work.

function handle(r)
  local ms = math.min(tonumber(r:parseargs().ms) or 10, 10000)
  local n = 0
  for i = 1, ms * 100000 do n = n ~ i end
  r.content_type = "text/plain"
  r:puts(string.format("burned about %d ms\n", ms))
  return apache2.OK
end
