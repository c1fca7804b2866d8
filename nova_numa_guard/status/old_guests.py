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

"""Which guests run with XML from before the guard."""

from collections.abc import Iterable

from oslo_upgradecheck import upgradecheck

from nova_numa_guard import domain
from nova_numa_guard.status import driver, host, options

Code, Result = upgradecheck.Code, upgradecheck.Result

_REBOOT = (
    'Hard-reboot each when it suits (openstack server reboot --hard UUID), or '
    'live-migrate it to a host that has the guard.'
)


class OldGuestsCheck:
    """The guests that keep what Nova wrote until their XML is made anew.

    :param here: the host
    """

    name = 'Guests from before the guard'

    def __init__(self, here: host.Host) -> None:
        self._here = here

    def run(self) -> upgradecheck.Result:
        conf = self._here.conf
        running = [each for each in self._here.running if each.novas]
        lines = []
        if options.value(conf, 'numatune') == 'guard':
            lines += _listed(
                'These servers are bound strictly as a whole, and the kernel '
                'kills them when their host NUMA node runs out of memory:',
                filter(_is_stock, running),
            )
        if options.value(conf, 'isolation') == 'cell':
            lines += _listed(
                'These servers without a NUMA topology are not confined to '
                'the floating cells:',
                filter(_is_free, running),
            )
        if not lines:
            return Result(Code.SUCCESS)
        if conf.compute_driver != driver.COMPUTE_DRIVER:
            return Result(
                Code.SUCCESS,
                '\n'.join(
                    [
                        *lines,
                        "Once nova-compute has the guard's driver: "
                        + _REBOOT[0].lower()
                        + _REBOOT[1:],
                    ]
                ),
            )
        return Result(Code.WARNING, '\n'.join([*lines, _REBOOT]))


def _listed(heading: str, found: Iterable[host.Running]) -> list[str]:
    lines = [f'- {each.uuid} {each.name}' for each in found]
    return [heading, *lines] if lines else []


def _is_stock(each: host.Running) -> bool:
    """Whether it has ``<memory>`` that the guard would not write.

    Confidential guests keep it.
    """
    layout = domain.read(each.root)
    confidential = each.root.find('./launchSecurity') is not None
    return bool(layout.memnodes) and layout.is_bound and not confidential


def _is_free(each: host.Running) -> bool:
    layout = domain.read(each.root)
    return not layout.cells and not layout.is_bound
