//! Which system calls a sandboxed command may not make, and which no command may that has the agent's user.
//!
//! A list of what is forbidden and not of what is allowed: the sandbox is for any program, and Landlock has said what it
//! reaches. Here are the ways around that: other processes, other namespaces, the kernel's rarely used doors, and sockets.

use std::collections::BTreeMap;

use bowline_model::fleet::Sandbox;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Looking into other processes, and taking what they hold. Processes of one user may do that to each other, so no command
/// that has the agent's user may.
const OTHER_PROCESSES: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// Calls that change what a process may use, with the argument that says which process. For itself, as 0, a command may.
const OTHERS_LIMITS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

const FORBIDDEN: &[i64] = &[
    // Other views of the file system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // Requests that no filter sees; sockets can be made by them, too.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The kernel itself, and what it keeps for others.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

/// Whom a file belongs to and who may do what with it. Landlock does not watch over these: whoever owns a file may do it,
/// wherever the file is. So a command may not that has the agent's user.
const OWNERSHIP: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
];
// So new that not every C library knows them; their numbers are the same everywhere.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

/// On x86-64 every call has a second number, for programs with short pointers, and some a third.
const X32: i64 = 0x4000_0000;
const X32_OWN: &[i64] = &[X32 + 521, X32 + 528, X32 + 539, X32 + 540];

/// The programs for the kernel, to be applied in this order. `shares_user` if the command has the agent's user.
pub(super) fn filters(sandbox: Sandbox, shares_user: bool) -> Result<Vec<BpfProgram>, BackendError> {
    let mut forbidden: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let ownership: &[i64] = if shares_user { OWNERSHIP } else { &[] };
    for call in FORBIDDEN.iter().chain(ownership) {
        forbid(&mut forbidden, *call, Vec::new());
    }
    leave_others_alone(&mut forbidden)?;
    // A new process may not have namespaces of its own, in which it would be root.
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let is_new_user = condition(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(new_user), new_user)?;
    forbid(&mut forbidden, libc::SYS_clone, vec![SeccompRule::new(vec![is_new_user])?]);
    let rules = match sandbox {
        // Services of this host listen on local sockets, and act for whoever asks as root; and a network is no local socket.
        Sandbox::None | Sandbox::Standard => {
            let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| {
                condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()))
            });
            vec![SeccompRule::new(families.into_iter().collect::<Result<_, _>>()?)?]
        }
        Sandbox::Strict => Vec::new(),
    };
    forbid(&mut forbidden, libc::SYS_socket, rules);
    // A pair of sockets is a pipe; but one for datagrams could be turned to a service.
    let datagram = condition(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(0xf), 2)?;
    forbid(&mut forbidden, libc::SYS_socketpair, vec![SeccompRule::new(vec![datagram])?]);
    // What `clone3` asks for is out of a filter's sight. Where it seems not to exist, programs use `clone`.
    let mut unknown = BTreeMap::new();
    forbid(&mut unknown, libc::SYS_clone3, Vec::new());
    Ok(vec![program(unknown, libc::ENOSYS)?, program(forbidden, libc::EPERM)?])
}

/// The program for a command that has the agent's user and no sandbox: it is kept from the agent's process, and from nothing
/// else.
pub(super) fn plain() -> Result<BpfProgram, BackendError> {
    let mut forbidden = BTreeMap::new();
    leave_others_alone(&mut forbidden)?;
    program(forbidden, libc::EPERM)
}

fn leave_others_alone(forbidden: &mut BTreeMap<i64, Vec<SeccompRule>>) -> Result<(), BackendError> {
    for call in OTHER_PROCESSES {
        forbid(forbidden, *call, Vec::new());
    }
    for (call, argument) in OTHERS_LIMITS {
        let is_another = condition(*argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
        forbid(forbidden, *call, vec![SeccompRule::new(vec![is_another])?]);
    }
    for call in X32_OWN.iter().filter(|_| cfg!(target_arch = "x86_64")) {
        forbidden.insert(*call, Vec::new());
    }
    Ok(())
}

fn forbid(all: &mut BTreeMap<i64, Vec<SeccompRule>>, call: i64, when: Vec<SeccompRule>) {
    if cfg!(target_arch = "x86_64") {
        all.insert(X32 + call, when.clone());
    }
    all.insert(call, when);
}

fn condition(
    argument: u8,
    length: SeccompCmpArgLen,
    is: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, length, is, value)
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let answer = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture)?.try_into()
}

/// Whether programs for the kernel can be made here and would be taken.
pub(super) fn is_there() -> bool {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    actions.split_whitespace().any(|action| action == "errno") && filters(Sandbox::Strict, true).is_ok()
}
