-- SPDX-License-Identifier: Apache-2.0
-- Uses about half a millisecond of CPU time.
function handle(r)
  local n = 0
  for i = 1, 60000 do n = n + i end
  r.content_type = "text/plain"
  r:puts("done\n")
  return apache2.OK
end
