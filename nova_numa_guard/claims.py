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

"""What a domain that runs claims, by its XML.

Pure: text in, claim out.
"""

from nova_numa_guard import availability, binding, domain


def read(
    xml: domain.Text,
    uuid: str,
    domain_id: int,
    name: str,
    small_page: int,
    default_page: int | None = None,
) -> availability.Claim:
    """The huge pages that a domain may use, and how its memory is bound.

    :param uuid: of the domain, and of the server if it is Nova's
    :param domain_id: of libvirt
    :param name: of the domain
    :param small_page: the host's small page size in KiB
    :param default_page: KiB of a huge page where the domain names no size;
        None leaves these out
    :raises ValueError: this is not the XML of a domain
    """
    layout = domain.read(xml)
    needs, anywhere = domain.claim(layout, small_page, default_page)
    return availability.Claim(
        uuid, domain_id, name, needs, anywhere, binding.of(layout, small_page)
    )
