"""`GROUPS`: system calls a child may make, grouped as the rows of the table in docs/threat_model.md.

A call outside the list is refused, including calls that future kernels add. `sandbox.child.seccomp` checks the
arguments of some calls.
"""

from __future__ import annotations

_TABLE = {
    "read and write": """
        read=0/63 write=1/64 pread64=17/67 pwrite64=18/68 readv=19/65 writev=20/66 preadv=295/69
        pwritev=296/70 preadv2=327/286 pwritev2=328/287 lseek=8/62 sendfile=40/71 copy_file_range=326/285
        splice=275/76 tee=276/77 fsync=74/82 fdatasync=75/83 fadvise64=221/223 readahead=187/213
        sync_file_range=277/84 fallocate=285/47 close=3/57 close_range=436/436 dup=32/23 dup2=33/-
        dup3=292/24 pipe=22/- pipe2=293/59
    """,
    "own files": """
        open=2/- openat=257/56 openat2=437/437 creat=85/- truncate=76/45 ftruncate=77/46 rename=82/-
        renameat=264/38 renameat2=316/276 mkdir=83/- mkdirat=258/34 rmdir=84/- link=86/- linkat=265/37
        unlink=87/- unlinkat=263/35 symlink=88/- symlinkat=266/36 getdents=78/- getdents64=217/61
        umask=95/166
    """,
    "paths": """
        stat=4/- lstat=6/- fstat=5/80 newfstatat=262/79 statx=332/291 access=21/- faccessat=269/48
        faccessat2=439/439 readlink=89/- readlinkat=267/78 chdir=80/49 fchdir=81/50 getcwd=79/17
        statfs=137/43 fstatfs=138/44
    """,
    "descriptor control": """
        fcntl=72/25 ioctl=16/29
    """,
    "wait": """
        poll=7/- ppoll=271/73 select=23/- pselect6=270/72 epoll_create=213/- epoll_create1=291/20
        epoll_ctl=233/21 epoll_wait=232/- epoll_pwait=281/22 epoll_pwait2=441/441 eventfd=284/-
        eventfd2=290/19 signalfd=282/- signalfd4=289/74 timerfd_create=283/85 timerfd_settime=286/86
        timerfd_gettime=287/87
    """,
    "memory": """
        mmap=9/222 mprotect=10/226 munmap=11/215 mremap=25/216 brk=12/214 madvise=28/233 msync=26/227
        mbind=237/235 get_mempolicy=239/236 set_mempolicy=238/237 membarrier=324/283
    """,
    "signals": """
        rt_sigaction=13/134 rt_sigprocmask=14/135 rt_sigreturn=15/139 rt_sigpending=127/136
        rt_sigtimedwait=128/137 rt_sigsuspend=130/133 sigaltstack=131/132 pause=34/- kill=62/129
        tkill=200/130 tgkill=234/131 rt_sigqueueinfo=129/138 rt_tgsigqueueinfo=297/240
        restart_syscall=219/128
    """,
    "time": """
        nanosleep=35/101 clock_nanosleep=230/115 clock_gettime=228/113 clock_getres=229/114
        gettimeofday=96/169 time=201/- getitimer=36/102 setitimer=38/103 alarm=37/- timer_create=222/107
        timer_settime=223/110 timer_gettime=224/108 timer_getoverrun=225/109 timer_delete=226/111
        times=100/153
    """,
    "threads": """
        clone=56/220 futex=202/98 futex_waitv=449/449 set_robust_list=273/99 get_robust_list=274/100
        set_tid_address=218/96 gettid=186/178 sched_yield=24/124 rseq=334/293 getcpu=309/168
        arch_prctl=158/- prctl=157/167
    """,
    "scheduling": """
        sched_getaffinity=204/123 sched_getparam=143/121 sched_getscheduler=145/120 sched_getattr=315/275
        sched_get_priority_max=146/125 sched_get_priority_min=147/126 sched_rr_get_interval=148/127
        getpriority=140/141
    """,
    "identity": """
        getpid=39/172 getppid=110/173 getpgrp=111/- getpgid=121/155 getsid=124/156 getuid=102/174
        geteuid=107/175 getgid=104/176 getegid=108/177 getresuid=118/148 getresgid=120/150 getgroups=115/158
        setuid=105/146 setgid=106/144 setreuid=113/145 setregid=114/143 setresuid=117/147 setresgid=119/149
        setfsuid=122/151 setfsgid=123/152 setgroups=116/159 capget=125/90 capset=126/91
    """,
    "limits": """
        getrlimit=97/163 setrlimit=160/164 prlimit64=302/261 getrusage=98/165 uname=63/160 sysinfo=99/179
        getrandom=318/278
    """,
    "sockets": """
        socketpair=53/199 sendto=44/206 recvfrom=45/207 getsockname=51/204 getpeername=52/205
        getsockopt=55/209 setsockopt=54/208 shutdown=48/210
    """,
    "end": """
        exit=60/93 exit_group=231/94 wait4=61/260 waitid=247/95
    """,
}
"""Group -> name=x86_64/aarch64; - where the machine does not have the call."""

NEWEST = 470
"""Calls beyond this number return ENOSYS; the C library then falls back to older ones."""


def _parse() -> dict[str, dict[str, tuple[int | None, int | None]]]:
    groups: dict[str, dict[str, tuple[int | None, int | None]]] = {}
    for group, text in _TABLE.items():
        groups[group] = {}
        for entry in text.split():
            name, _, numbers = entry.partition("=")
            x86, arm = (None if number == "-" else int(number) for number in numbers.split("/"))
            groups[group][name] = (x86, arm)
    return groups


GROUPS = _parse()
NUMBERS = {name: numbers for names in GROUPS.values() for name, numbers in names.items()}
