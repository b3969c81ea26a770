-- SPDX-License-Identifier: Apache-2.0
-- Uses about half a millisecond of CPU time, or with ?N so many times as much.
function handle(r)
  local n = 0
  for i = 1, 60000 * (tonumber(r.args) or 1) do n = n + i end
  r.content_type = "text/plain"
  r:puts("done\n")
  return apache2.OK
end
