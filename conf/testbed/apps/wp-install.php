<?php
// SPDX-License-Identifier: Apache-2.0
// Sets up the WordPress in the folder that is given: what its form does.
$_SERVER += ['HTTP_HOST' => 'site1.test', 'REQUEST_URI' => '/wordpress/', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
define('WP_INSTALLING', true);
require $argv[1] . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Test bed', 'bed', 'bed@site1.test', true, '', 'only on the test bed');
for ($i = 1; $i <= 10; $i++) {
    wp_insert_post(['post_title' => "Post $i", 'post_content' => str_repeat("<p>Line of post $i.</p>", 20), 'post_status' => 'publish']);
}
exit(is_blog_installed() ? 0 : 1);
