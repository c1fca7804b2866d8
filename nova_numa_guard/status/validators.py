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

"""Whether nova-api knows the guard's extra specs."""

from oslo_upgradecheck import upgradecheck

Code, Result = upgradecheck.Code, upgradecheck.Result


class ValidatorsCheck:
    """The validators, found among the entry points as nova-api does it."""

    name = 'Extra specs in nova-api'

    def run(self) -> upgradecheck.Result:
        # It takes a second, and not every check needs it.
        from nova.api.validation.extra_specs import validators

        from nova_numa_guard import api

        wanted = [each.name for each in api.register()]
        missing = [
            each for each in wanted if each not in validators.VALIDATORS
        ]
        if missing:
            return Result(
                Code.FAILURE,
                f'nova-api does not know the extra specs {", ".join(missing)}.'
                '\nInstall nova-numa-guard into the Python environment that '
                'nova-api runs in, restart nova-api, and run this command '
                'from there. Until then nobody is told of a wrong value.',
            )
        return Result(Code.SUCCESS)
