#!/bin/bash
#
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

# nova-numa-guard in devstack, which sources this file in each of its phases:
#
#   plugin.sh stack install | post-config | extra
#   plugin.sh unstack
#   plugin.sh clean
#
# Whatever is done here may be done again.

_XTRACE_NUMA_GUARD=$(set +o | grep xtrace)
set +o xtrace

NUMA_GUARD_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
NUMA_GUARD_DRIVER=numa_guard.NUMAGuardDriver
NUMA_GUARD_FILTER=nova_numa_guard.scheduler.filters.NUMAGuardFilter
NUMA_GUARD_WEIGHER=nova_numa_guard.scheduler.weights.NUMAGuardWeigher

# Whether a nova-compute here is one that the guard's driver is for.
function _numa_guard_has_compute {
    is_service_enabled n-cpu && [[ "${VIRT_DRIVER:-libvirt}" == libvirt ]]
}

# _numa_guard_without LIST WORD: a list with commas, without a word of it
function _numa_guard_without {
    local list=",$1,"
    # More than once: two of them that are neighbours share a comma.
    while [[ "$list" == *",$2,"* ]]; do
        list=${list/",$2,"/,}
    done
    list=${list#,}
    echo "${list%,}"
}

function install_numa_guard {
    # libvirt-python is built where no nova-compute has brought it.
    if is_ubuntu; then
        setup_develop -bindep=compile "$NUMA_GUARD_DIR"
    else
        setup_develop "$NUMA_GUARD_DIR"
    fi
}

function _numa_guard_configure_scheduler {
    local section=filter_scheduler
    local filters weighers
    local -a available

    # From NOVA_FILTERS of devstack/settings, unless another plug-in has
    # replaced it since.
    filters=$(iniget "$NOVA_CONF" $section enabled_filters)
    iniset "$NOVA_CONF" $section enabled_filters \
        "$(numa_guard_filters "$filters")"

    # The first is Nova's default, and is one no more once another is given.
    read -ra available <<< \
        "$(iniget_multiline "$NOVA_CONF" $section available_filters)"
    if [[ ${#available[@]} -eq 0 ]]; then
        available=(nova.scheduler.filters.all_filters)
    fi
    if [[ " ${available[*]} " != *" $NUMA_GUARD_FILTER "* ]]; then
        available+=("$NUMA_GUARD_FILTER")
        iniset_multiline "$NOVA_CONF" $section available_filters \
            "${available[@]}"
    fi

    weighers=$(iniget "$NOVA_CONF" $section weight_classes)
    weighers=${weighers:-nova.scheduler.weights.all_weighers}
    weighers=$(_numa_guard_without "$weighers" $NUMA_GUARD_WEIGHER)
    iniset "$NOVA_CONF" $section weight_classes "$weighers,$NUMA_GUARD_WEIGHER"
}

# nova.conf is all that has to be written: devstack copies it to nova-cpu.conf
# when it starts nova-compute.
function configure_numa_guard {
    local name option
    for option in $NUMA_GUARD_OPTIONS; do
        name=NUMA_GUARD_${option^^}
        if [[ -n "${!name:-}" ]]; then
            iniset "$NOVA_CONF" numa_guard "$option" "${!name}"
        else
            inidelete "$NOVA_CONF" numa_guard "$option"
        fi
    done
    if is_service_enabled n-sch; then
        _numa_guard_configure_scheduler
    fi
    if _numa_guard_has_compute; then
        iniset "$NOVA_CONF" DEFAULT compute_driver $NUMA_GUARD_DRIVER
    elif is_service_enabled n-cpu; then
        warn $LINENO "VIRT_DRIVER is $VIRT_DRIVER: nova-numa-guard's driver" \
            "is libvirt's, and is left out"
    fi
}

# What nova-compute was started with; local.conf may have changed it since.
function check_numa_guard {
    if ! _numa_guard_has_compute; then
        return 0
    fi
    local driver
    driver=$(iniget "$NOVA_CPU_CONF" DEFAULT compute_driver)
    if [[ "$driver" != "$NUMA_GUARD_DRIVER" ]]; then
        warn $LINENO "compute_driver is $driver in $NOVA_CPU_CONF:" \
            "nova-numa-guard is not in this nova-compute"
        return 0
    fi
    # Of its exit codes 2 is a failure; with the others devstack can go on.
    local code=0
    "$NOVA_BIN_DIR/nova-numa-guard-status" --config-file "$NOVA_CPU_CONF" \
        upgrade check --role compute || code=$?
    if [[ $code == 2 ]]; then
        die $LINENO "nova-compute cannot be what $NOVA_CPU_CONF asks for"
    elif [[ $code != 0 ]]; then
        warn $LINENO "nova-numa-guard-status has warnings (see above)"
    fi
}

# NUMATopologyFilter stays: it is Nova's, and may have been there before.
function _numa_guard_unconfigure_scheduler {
    local conf=$1
    local section=filter_scheduler
    local list word
    local -a available left=()

    list=$(iniget "$conf" $section enabled_filters)
    if [[ ",$list," == *,NUMAGuardFilter,* ]]; then
        iniset "$conf" $section enabled_filters \
            "$(_numa_guard_without "$list" NUMAGuardFilter)"
    fi

    list=$(iniget "$conf" $section weight_classes)
    list=$(_numa_guard_without "$list" $NUMA_GUARD_WEIGHER)
    if [[ -z "$list" || "$list" == nova.scheduler.weights.all_weighers ]]; then
        inidelete "$conf" $section weight_classes
    else
        iniset "$conf" $section weight_classes "$list"
    fi

    read -ra available <<< \
        "$(iniget_multiline "$conf" $section available_filters)"
    for word in "${available[@]}"; do
        if [[ "$word" != "$NUMA_GUARD_FILTER" ]]; then
            left+=("$word")
        fi
    done
    if [[ "${left[*]}" == nova.scheduler.filters.all_filters ]]; then
        left=()
    fi
    if [[ ${#left[@]} -eq 0 ]]; then
        inidelete "$conf" $section available_filters
    elif [[ ${#left[@]} -lt ${#available[@]} ]]; then
        iniset_multiline "$conf" $section available_filters "${left[@]}"
    fi
}

function unconfigure_numa_guard {
    local conf
    for conf in "$NOVA_CONF" "$NOVA_CPU_CONF"; do
        if [[ ! -f "$conf" ]]; then
            continue
        fi
        # The whole section, with what local.conf has added to it.
        sed -i -e '/^\[numa_guard\]$/,/^\[/ {
            /^\[numa_guard\]$/d
            /^\[/!d
        }' "$conf"
        if [[ "$(iniget "$conf" DEFAULT compute_driver)" == \
            "$NUMA_GUARD_DRIVER" ]]; then
            iniset "$conf" DEFAULT compute_driver libvirt.LibvirtDriver
        fi
        _numa_guard_unconfigure_scheduler "$conf"
    done
}

function uninstall_numa_guard {
    # pip_uninstall knows this one, and not devstack's own.
    # shellcheck disable=SC2034
    if [[ "${GLOBAL_VENV:-}" == True && -d "${DEVSTACK_VENV:-}" ]]; then
        local PIP_VIRTUAL_ENV=$DEVSTACK_VENV
    fi
    pip_uninstall nova-numa-guard
}

case "$1 ${2:-}" in
"stack install")
    echo_summary "Installing nova-numa-guard"
    install_numa_guard
    ;;
"stack post-config")
    echo_summary "Configuring nova-numa-guard"
    configure_numa_guard
    ;;
"stack extra")
    echo_summary "Checking nova-numa-guard"
    check_numa_guard
    ;;
"unstack ")
    unconfigure_numa_guard
    ;;
"clean ")
    unconfigure_numa_guard
    uninstall_numa_guard
    ;;
esac

$_XTRACE_NUMA_GUARD
