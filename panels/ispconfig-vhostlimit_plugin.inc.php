<?php
// SPDX-License-Identifier: Apache-2.0
//
// A plugin of ISPConfig's server. It gives the sites of a client to the group clientN, and the
// group the plan with the name of the client's master template. ISPConfig's class loader wants
// the name vhostlimit_plugin.inc.php in /usr/local/ispconfig/server/plugins-available, and a
// link in plugins-enabled. See docs/guides/panels.md.

class vhostlimit_plugin
{
    public $plugin_name = 'vhostlimit_plugin';
    public $class_name = 'vhostlimit_plugin';

    // The program that writes the file, and its options.
    public $command = array('/usr/share/mod_vhostlimit/panels/vhostlimit-panel', '--reload', '-');

    private $changed = false;

    // ISPConfig's installer asks whether to make the link.
    public function onInstall()
    {
        global $conf;
        return !empty($conf['services']['web']);
    }

    public function onLoad()
    {
        global $app;
        foreach (array('web_domain', 'client') as $table) {
            foreach (array('insert', 'update', 'delete') as $change) {
                $app->plugins->registerEvent($table . '_' . $change, $this->plugin_name, 'changed');
            }
        }
    }

    // One run of server.php raises many events. The file is written once, after ISPConfig has
    // written all virtual hosts and has asked Apache to read them.
    public function changed($event_name, $data)
    {
        if (!$this->changed) {
            $this->changed = true;
            register_shutdown_function(array($this, 'write'));
        }
    }

    // Prints nothing; errors go to ISPConfig's log.
    public function write()
    {
        global $app;
        $lines = $this->lines();
        if ($lines === false) {
            return;
        }
        $process = proc_open($this->command, array(array('pipe', 'r'), array('pipe', 'w'), array('redirect', 1)), $pipes);
        if (!is_resource($process)) {
            $app->log('vhostlimit_plugin: ' . $this->command[0] . ' cannot be run', LOGLEVEL_WARN);
            return;
        }
        fwrite($pipes[0], $lines);
        fclose($pipes[0]);
        $said = trim(stream_get_contents($pipes[1]));
        fclose($pipes[1]);
        $status = proc_close($process);
        if ($said !== '' || $status !== 0) {
            $app->log($said . ($status ? ' (status ' . $status . ')' : ''), $status ? LOGLEVEL_WARN : LOGLEVEL_DEBUG);
        }
    }

    // Returns SITE, CUSTOMER, PACKAGE for each site of this server. system_group is the group of
    // the client's web spaces, clientN. The tables client and client_template have no server, so
    // that each server has a copy of them. Returns false if the database does not answer, so
    // that the file stays as it is.
    public function lines()
    {
        global $app, $conf;
        $sites = $this->rows(
            "SELECT domain, system_group FROM web_domain WHERE server_id = ?" .
            " AND type IN ('vhost', 'vhostsubdomain', 'vhostalias') AND active = 'y' ORDER BY domain_id",
            $conf['server_id']
        );
        $clients = $this->rows(
            'SELECT c.client_id, t.template_name FROM client c' .
            ' LEFT JOIN client_template t ON t.template_id = c.template_master'
        );
        if ($sites === false || $clients === false) {
            $app->log('vhostlimit_plugin: the database does not list the sites; the groups stay as they are', LOGLEVEL_WARN);
            return false;
        }
        $packages = array();
        foreach ($clients as $client) {
            $packages['client' . $client['client_id']] = (string) $client['template_name'];
        }
        $lines = '';
        foreach ($sites as $site) {
            $group = $site['system_group'];
            $words = array($site['domain'], $group, isset($packages[$group]) ? $packages[$group] : '');
            $lines .= implode("\t", str_replace(array("\t", "\n", "\r"), ' ', $words)) . "\n";
        }
        return $lines;
    }

    // ISPConfig returns an empty array for a query that has failed.
    private function rows()
    {
        global $app;
        $app->db->errorNumber = 0;
        $rows = call_user_func_array(array($app->db, 'queryAllRecords'), func_get_args());
        return is_array($rows) && $app->db->errorNumber == 0 ? $rows : false;
    }
}
