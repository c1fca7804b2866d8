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

"""The flavor extra specs of the guard, as nova-api validates them.

Loaded through the entry point ``nova.api.extra_spec_validators`` (see
nova.api.validation.extra_specs). Naming one key makes the whole namespace
ours: any other key in it is refused.
"""

from nova.api.validation.extra_specs import base

from nova_numa_guard import tuning


def register() -> list[base.ExtraSpecValidator]:
    """The validators."""
    return [
        base.ExtraSpecValidator(
            name='numa_guard:isolation',
            description=(
                'Whether guests of this flavor are exempt from isolation: '
                'they may join any host, and keep no other guest from one.'
            ),
            value={
                'type': str,
                'description': 'exempt; nothing else is possible.',
                'enum': ['exempt'],
            },
        ),
        base.ExtraSpecValidator(
            name='numa_guard:mem_policy',
            description=(
                'The memory policy of NUMA cells that have small pages, '
                'instead of [numa_guard] small_page_policy. Cells with huge '
                'pages are always bound strictly.'
            ),
            value={
                'type': str,
                'description': 'A memory policy.',
                'enum': [policy.value for policy in tuning.SmallPagePolicy],
            },
        ),
    ]
