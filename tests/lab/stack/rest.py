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

"""Talk to the API of a service as the administrator."""

from collections.abc import Callable
import http.client
import json
from typing import Any
import urllib.error
import urllib.request

from tests.lab.stack import config, errors

# No proxy leads to the loopback device.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RestError(errors.LabError):
    """A service answered with an error.

    :param status: of HTTP
    """

    def __init__(self, request: str, status: int, text: str) -> None:
        super().__init__(f'{request}: {status} {text}')
        self.status = status


def answers(url: str) -> Callable[[], bool]:
    """Whether a service answers anything at all."""

    def ready() -> bool:
        try:
            _OPENER.open(url, timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except (OSError, http.client.HTTPException):
            return False
        return True

    return ready


class Rest:
    """A token of the administrator, and requests with it."""

    def __init__(self, basics: config.Basics) -> None:
        self._basics = basics
        self._headers = {'X-Auth-Token': self._token()}

    def call(
        self,
        service: str,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send a request, and read the JSON of the answer.

        :param body: bytes, or what becomes JSON
        :raises RestError: the service refused it
        """
        raw, _ = self._send(
            method,
            self._basics.url(service) + path,
            body,
            {**self._headers, **(headers or {})},
        )
        return json.loads(raw) if raw else None

    def _token(self) -> str:
        domain = {'id': 'default'}
        user = {
            'name': 'admin',
            'domain': domain,
            'password': config.PASSWORD,
        }
        _, headers = self._send(
            'POST',
            self._basics.url('keystone') + '/v3/auth/tokens',
            {
                'auth': {
                    'identity': {
                        'methods': ['password'],
                        'password': {'user': user},
                    },
                    'scope': {'project': {'name': 'admin', 'domain': domain}},
                }
            },
            {},
        )
        return str(headers['X-Subject-Token'])

    @staticmethod
    def _send(
        method: str, url: str, body: Any, headers: dict[str, str]
    ) -> tuple[bytes, Any]:
        kind = 'application/json'
        data: bytes | None = None
        if isinstance(body, bytes):
            data, kind = body, 'application/octet-stream'
        elif body is not None:
            data = json.dumps(body).encode()
        request = urllib.request.Request(
            url,
            method=method,
            data=data,
            headers={'Content-Type': kind, **headers},
        )
        try:
            with _OPENER.open(request, timeout=60) as answer:
                return answer.read(), answer.headers
        except urllib.error.HTTPError as exc:
            raise RestError(
                f'{method} {url}', exc.code, exc.read().decode()
            ) from None
