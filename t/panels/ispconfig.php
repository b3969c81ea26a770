<?php
// SPDX-License-Identifier: Apache-2.0
//
// Runs the plugin as ISPConfig's server.php does: it loads the plugin, raises events, and ends
// with die(). The tables are in a file of JSON. With the source of ISPConfig its own classes
// plugins and tpl are used, and its template is filled for each site.
//
// Usage: php ispconfig.php PLUGIN COMMAND TABLES [SOURCE ADDRESS:PORT DOCUMENTS]

define('LOGLEVEL_DEBUG', 0);
define('LOGLEVEL_WARN', 1);
define('LOGLEVEL_ERROR', 2);
error_reporting(E_ALL & ~E_DEPRECATED & ~E_NOTICE & ~E_WARNING);

list(, $plugin_file, $command, $tables_file) = $argv;
$source = isset($argv[4]) ? $argv[4] : '';

class panel_db
{
    public $errorNumber = 0;
    public $tables;

    public function queryAllRecords($sql)
    {
        if (!empty($this->tables['error'])) {
            $this->errorNumber = 2006;
            return array();
        }
        if (strpos($sql, 'FROM web_domain') === false) {
            return $this->tables['client'];
        }
        $server = func_get_arg(1);
        return array_values(array_filter($this->tables['web_domain'], function ($row) use ($server) {
            return $row['server_id'] == $server && $row['active'] == 'y';
        }));
    }
}

if ($source === '') {
    class plugins
    {
        public $available_events = array();
        public $events = array();

        public function announceEvents($module, $events)
        {
            $this->available_events = array_merge($this->available_events, $events);
        }

        public function registerEvent($event, $plugin, $function)
        {
            if (in_array($event, $this->available_events)) {
                $this->events[$event][] = array($plugin, $function);
            }
        }

        public function raiseEvent($event, $data)
        {
            global $app;
            foreach (isset($this->events[$event]) ? $this->events[$event] : array() as $of) {
                call_user_func(array($app->loaded_plugins[$of[0]], $of[1]), $event, $data);
            }
        }
    }
} else {
    require "$source/server/lib/classes/plugins.inc.php";
}

class panel_app
{
    public $db, $plugins;
    public $loaded_plugins = array();

    public function log($text, $level)
    {
        if ($level > LOGLEVEL_DEBUG || strpos($text, 'vhostlimit') === 0) {
            fwrite(STDERR, "log $level: $text\n");
        }
    }
}

$conf = array('server_id' => 1, 'services' => array('web' => true));
$app = new panel_app();
$app->db = new panel_db();
$app->db->tables = json_decode(file_get_contents($tables_file), true);
$app->plugins = new plugins();
foreach (array('web_domain', 'client') as $table) {
    $app->plugins->announceEvents('module', array("{$table}_insert", "{$table}_update", "{$table}_delete"));
}
require $plugin_file;
$plugin = new vhostlimit_plugin();
$plugin->command = array_merge(explode(' ', $command), array('--reload', '-'));
$app->loaded_plugins['vhostlimit_plugin'] = $plugin;
$plugin->onLoad();

if ($source !== '') {
    define('ISPC_CLASS_PATH', "$source/server/lib/classes");
    require "$source/server/lib/classes/tpl.inc.php";
    foreach ($app->db->tables['web_domain'] as $row) {
        list($address, $port) = explode(':', $argv[5]);
        $tpl = new tpl();
        $tpl->newTemplate("$source/server/conf/vhost.conf.master");
        $tpl->setVar(array(
            'domain' => $row['domain'], 'web_basedir' => $argv[6], 'web_document_root' => "{$argv[6]}/a",
            'web_document_root_www' => "{$argv[6]}/a", 'document_root' => "{$argv[6]}/a", 'apache_version' => '2.4.62',
            'php' => 'no', 'allow_override' => 'All', 'apache_directives' => '', 'logging' => 'no', 'security_level' => 10,
        ));
        $tpl->setLoop('vhosts', array(array('ip_address' => $address, 'port' => $port, 'ssl_enabled' => 0)));
        echo $tpl->grab();
    }
}
foreach ($app->db->tables['events'] as $event) {
    $app->plugins->raiseEvent($event, array('new' => array(), 'old' => array()));
}
die();
