# SPDX-License-Identifier: Apache-2.0
<VirtualHost %ip%:%web_port%>
    ServerName %domain_idn%
    %alias_string%
    DocumentRoot %docroot%
    IncludeOptional %home%/%user%/conf/web/%domain%/%web_system%.conf_*
</VirtualHost>
