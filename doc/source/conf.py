# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""How Sphinx builds the documentation."""

project = 'nova-numa-guard'
copyright = '2026, the nova-numa-guard contributors'
extensions = [
    'openstackdocstheme',
    'cliff.sphinxext',
    'oslo_config.sphinxext',
    'oslo_config.sphinxconfiggen',
]
config_generator_config_file = [
    (
        '../../etc/nova-numa-guard/config-generator.conf',
        '_static/nova-numa-guard',
    ),
]
html_theme = 'openstackdocs'
openstackdocs_repo_name = 'nova-numa-guard'
openstackdocs_auto_name = False
openstackdocs_auto_version = False
master_doc = 'index'
autoprogram_cliff_app_dist_name = 'nova-numa-guard'
# What cliff gives every command that prints a table is said once.
autoprogram_cliff_ignored = [
    '--help',
    '--format',
    '--column',
    '--quote',
    '--noindent',
    '--max-width',
    '--fit-width',
    '--print-empty',
    '--sort-column',
    '--sort-ascending',
    '--sort-descending',
]
man_pages = [
    (
        'cli',
        'nova-numa-guard',
        'look at floating and NUMA-affined Nova guests and their hosts',
        [],
        1,
    )
]
