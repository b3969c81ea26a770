# SPDX-License-Identifier: Apache-2.0
# Metrics of performance isolation, and intervals of confidence.  Part of rows.jq.
#
# A run has a client for each load: role, site, page, and from crowd.c how many requests
# were begun, the mean time of those that were timed, and how many ended without a time
# (refused, or the connection broke).  Loads of the abiding sites have the role "abiding".

# The time in s that counts for a request that was refused or broke off: as long as a
# client waits before it gives up (crowd.c), because the visitor never got the page.
def patience_s: 10;

def sum(f): [.[] | f] | add // 0;
def quotient(a; b): a as $a | b as $b
  | if ($a | type) == "number" and ($b | type) == "number" and $b > 0 then $a / $b else empty end;

# ---- Krebs, Momm, Kounev: "Metrics and Techniques for Quantifying Performance Isolation in
# Cloud Environments", QoSA 2012 ------------------------------------------------------------
#
#   z_t      quality of service of a site t, lower is better: the mean time of a request
#   w_t      load of a site
#   W_ref    all sites have their usual load
#   W_disr   the load of the disruptive sites is higher
#   A        the abiding sites
#
#   dz = sum over A of (z_t(W_disr) - z_t(W_ref)) / sum over A of z_t(W_ref)
#   dw = (sum of w_t in W_disr - sum of w_t in W_ref) / sum of w_t in W_ref
#   I_QoS = dz / dw
#
# 0: the abiding sites notice nothing.  1: their time grows as the load of the whole server.

def abiding: [.clients[] | select(.role == "abiding")];

def request_s: quotient((.mean_s // 0) * .timed + patience_s * .untimed; .timed + .untimed);
def abiding_s: abiding | select(length > 0) | [.[] | request_s] as $z
  | select(($z | length) == length) | $z | add;

# The load is what was sent, not what was answered: CPU time in ms that the requests of a
# second ask for.  Each connection of a slow client counts as a request.
def asked_ms: quotient(.begun; .seconds) * (.page | ltrimstr("burn") | tonumber);
def load_ms: .clients | sum(asked_ms);

def isolation_impact(ref; disr):
  quotient(quotient((disr | abiding_s) - (ref | abiding_s); ref | abiding_s);
    quotient((disr | load_ms) - (ref | load_ms); ref | load_ms));

# The average over several loads (the paper's I_avg).
def isolation_average(ref; disr): ref as $ref
  | [disr | isolation_impact($ref; .)] | select(length > 0) | add / length;

# The mean time of a request of the abiding sites, and the part of their requests that ended
# without a good response.
def abiding_mean_s: abiding | quotient(sum((.mean_s // 0) * .timed + patience_s * .untimed); sum(.timed + .untimed));
def abiding_failed: abiding | quotient(sum(.failures); sum(.begun));

# ---- Jain, Chiu, Hawe: "A Quantitative Measure of Fairness and Discrimination for Resource
# Allocation in Shared Computer Systems", DEC-TR-301, 1984 -----------------------------------
#
# (sum x)^2 / (n * sum x^2).  x is what a site got divided by its max-min fair share of the
# server, at most 1: a site that takes what others leave is not unfair.

def jain: if length > 0 and any(.[]; . > 0) then (add * add) / (length * (map(. * .) | add)) else empty end;

# Demands -> the max-min fair allocation of the capacity.
def max_min($capacity): . as $demands
  | reduce ([to_entries | sort_by(.value)[] | .key])[] as $i
      ({ left: $capacity, sites: ($demands | length), parts: ($demands | map(0)) };
       ([$demands[$i], .left / .sites] | min) as $part
       | .parts[$i] = $part | .left -= $part | .sites -= 1)
  | .parts;

# A slow client never ends its request, so it gets nothing and asks for no CPU time.
def jain_of_shares: .capacity as $capacity | select($capacity != null and (.clients | length) > 0)
  | (.clients | map(.page | ltrimstr("burn") | tonumber) | min) as $ms
  | [.clients | map(select(.role != "slow")) | group_by(.site)[]
     | { asked: sum(asked_ms), got: sum(quotient(.transactions; .seconds) * (.page | ltrimstr("burn") | tonumber)) }] as $sites
  | ($sites | map(.asked) | max_min($capacity * $ms)) as $fair
  | [range($sites | length) as $i | [1, quotient($sites[$i].got; $fair[$i])] | min] | jain;

# ---- Student's t ----------------------------------------------------------------------------

# The 97.5 % quantile: with three decimals up to 30 degrees of freedom, beyond by the
# first terms of its expansion about that of the normal distribution.
def student_t($degrees):
  [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
   2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042] as $table
  | if $degrees <= 30 then $table[$degrees - 1]
    else 1.959964 as $z | $z + (pow($z; 3) + $z) / (4 * $degrees)
      + (5 * pow($z; 5) + 16 * pow($z; 3) + 3 * $z) / (96 * pow($degrees; 2))
      + (3 * pow($z; 7) + 19 * pow($z; 5) + 17 * pow($z; 3) - 15 * $z) / (384 * pow($degrees; 3)) end;

# Values of the rounds -> mean, half width of its interval of 95 % confidence, and both ends.
# One round has no interval.
def interval: length as $n
  | if $n == 0 then { mean: null, half: null, low: null, high: null }
    else (add / $n) as $mean
      | (if $n < 2 then null
         else student_t($n - 1) * (map(. - $mean | . * .) | add / ($n - 1) | sqrt) / ($n | sqrt) end) as $half
      | { mean: $mean, half: $half } + (if $half == null then { low: null, high: null }
          else { low: ($mean - $half), high: ($mean + $half) } end)
    end;
