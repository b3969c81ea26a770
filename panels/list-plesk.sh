# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sites of Plesk, from its documentation; untested on a server with Plesk.
# A plan belongs to a subscription, and a customer may have several subscriptions with
# different plans. So the group is the subscription, named after its system user.

list_plesk() {
  plesk db -N -B -e "
    SELECT d.name, u.login, IFNULL(MIN(t.name), '')
    FROM domains d
    JOIN hosting h ON h.dom_id = IF(d.webspace_id = 0, d.id, d.webspace_id)
    JOIN sys_users u ON u.id = h.sys_user_id
    LEFT JOIN Subscriptions s ON s.object_type = 'domain' AND s.object_id = IF(d.webspace_id = 0, d.id, d.webspace_id)
    LEFT JOIN PlansSubscriptions p ON p.subscription_id = s.id
    LEFT JOIN Templates t ON t.id = p.plan_id AND t.type = 'domain'
    WHERE d.htype = 'vrt_hst'
    GROUP BY d.id, d.name, u.login ORDER BY d.name"
}
