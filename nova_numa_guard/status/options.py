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

"""Whether the options of [numa_guard] have values that a service takes."""

from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard import conf as guard_conf
from nova_numa_guard.status import checks

Code, Result = upgradecheck.Code, upgradecheck.Result


class OptionsCheck:
    """The options that nova-compute checks when it starts.

    :param conf: has read the configuration
    """

    name = 'Options of [numa_guard]'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> upgradecheck.Result:
        try:
            guard_conf.validate(self._conf)
        except ValueError as exc:
            return Result(
                Code.FAILURE,
                f'{exc}\nNova-services that read it do not start. Correct it.',
            )
        # A folder that was looked for and is not there is in it as well.
        if not self._conf.config_file and not self._conf.config_dir:
            return Result(
                Code.WARNING,
                'No configuration file was found, so that only defaults were '
                "checked. Name the service's with --config-file FILE, before "
                'the word "upgrade".',
            )
        return Result(Code.SUCCESS)


def value(conf: cfg.ConfigOpts, name: str) -> Any:
    """An option of [numa_guard], for a check that depends on it.

    :raises CannotCheckError: its value is none that it may have
    """
    try:
        return conf.numa_guard[name]
    except ValueError as exc:
        raise checks.CannotCheckError(f'[numa_guard] {name}: {exc}') from exc
