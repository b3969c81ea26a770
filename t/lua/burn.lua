-- SPDX-License-Identifier: Apache-2.0
-- Burns some CPU time in the worker's own thread.
function handle(r)
  local start = os.clock()
  local n = 0
  repeat
    for i = 1, 100000 do n = n + i end
  until os.clock() - start > 0.05
  r.content_type = "text/plain"
  r:puts("burnt\n")
  return apache2.OK
end
