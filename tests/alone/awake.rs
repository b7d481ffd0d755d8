//! Processes whose threads seem to wait while something can still make the next call: no deadlock
//! is reported.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{
    CommConfig, Communicator, Error, Failed, Host, Ready, Result, Seat, World, launch, spmd,
};

/// Longer than the engine observes a process before it reports a deadlock.
const LONG: Duration = Duration::from_millis(400);

static WAIT: Mutex<Option<fn()>> = Mutex::new(None);

fn body<W: World>(comm: Communicator<W>) -> Result<()> {
    if comm.rank().index() == 0
        && let Some(wait) = WAIT.lock().expect("no panic").take()
    {
        wait();
    }
    comm.barrier()?;
    comm.finish()
}

/// Rank 1 waits for rank 0, which does something else before it calls.
fn late(wait: fn()) -> Result<()> {
    *WAIT.lock().expect("no panic") = Some(wait);
    launch!(body)
}

/// A signal handler lets a thread proceed.
pub(crate) fn for_a_signal() -> Result<()> {
    late(|| {
        struct Gate(std::cell::UnsafeCell<libc::sem_t>);
        // SAFETY: a semaphore may be used by several threads.
        unsafe impl Sync for Gate {}
        // SAFETY: a semaphore may be all zeros until it is initialised.
        static GATE: Gate = Gate(std::cell::UnsafeCell::new(unsafe { std::mem::zeroed() }));
        extern "C" fn opens(_: libc::c_int) {
            // SAFETY: the semaphore is initialised before the handler is installed, and stays.
            unsafe { libc::sem_post(GATE.0.get()) };
        }
        let handler = opens as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: nothing else uses the semaphore yet.
        unsafe { libc::sem_init(GATE.0.get(), 0, 0) };
        // SAFETY: the handler only makes async-signal-safe calls.
        unsafe { libc::signal(libc::SIGUSR1, handler) };
        let sends = format!("sleep 0.4; kill -USR1 {}", std::process::id());
        let mut sends = Command::new("sh").args(["-c", &sends]).spawn().expect("a shell");
        // SAFETY: it is initialised.
        while unsafe { libc::sem_wait(GATE.0.get()) } != 0 {}
        sends.wait().expect("it ends");
    })
}

/// Forks a child that shares this process's memory; it may make system calls only.
fn forked(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child only does what is safe after a fork, and ends.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: it ends without running anything else.
            unsafe { libc::_exit(0) }
        }
        child => child,
    }
}

fn gone(child: libc::pid_t) {
    // SAFETY: it is a child of this process whose status nothing else reads.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

fn nap() {
    // SAFETY: it only sleeps.
    unsafe { libc::usleep(LONG.as_micros() as u32) };
}

fn this_thread() -> libc::pid_t {
    // SAFETY: it has no conditions.
    unsafe { libc::gettid() }
}

/// Another process lets a thread proceed, through shared memory. The value there looks like a
/// thread's number, as if a join waited on it.
pub(crate) fn for_another_process() -> Result<()> {
    late(|| {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: new memory.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        // SAFETY: it is large enough, aligned, and stays as long as the process.
        let word = unsafe { &*memory.cast::<AtomicU32>() };
        let mine = this_thread() as u32;
        word.store(mine, SeqCst);
        let call = |operation: libc::c_int, value: u32| {
            let none = std::ptr::null::<libc::timespec>();
            // SAFETY: the word stays, and there is no deadline.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, none) }
        };
        let child = forked(|| {
            nap();
            word.store(0, SeqCst);
            call(libc::FUTEX_WAKE, 1);
        });
        while word.load(SeqCst) == mine {
            call(libc::FUTEX_WAIT, mine);
        }
        gone(child);
    })
}

/// Stops a thread for a while, as a debugger does, and reports when it is stopped.
fn stops(thread: libc::pid_t, stopped: libc::c_int) -> libc::pid_t {
    const NOTHING: usize = 0;
    // SAFETY: it allows another process to trace this one.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
    forked(|| {
        nap();
        // SAFETY: requests without memory.
        let request = |request| unsafe { libc::ptrace(request, thread, NOTHING, NOTHING) };
        let seized = request(libc::PTRACE_SEIZE) == 0 && request(libc::PTRACE_INTERRUPT) == 0;
        if seized {
            // SAFETY: nothing else reads its status.
            unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) };
        }
        // SAFETY: one byte of this one.
        unsafe { libc::write(stopped, (&raw const seized).cast(), 1) };
        if seized {
            nap();
            request(libc::PTRACE_DETACH);
        }
    })
}

fn pipe() -> [libc::c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: two numbers are written there.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

fn read(end: libc::c_int) {
    let mut byte = 0_u8;
    // SAFETY: one byte is written there.
    assert_eq!(unsafe { libc::read(end, (&raw mut byte).cast(), 1) }, 1);
    if byte == 0 {
        eprintln!("no thread may be traced here");
    }
}

/// A thread was woken and has not proceeded, since it is stopped.
pub(crate) fn in_a_debugger() -> Result<()> {
    late(|| {
        let (told, hears) = channel();
        let [ends, begins] = pipe();
        let child = stops(this_thread(), begins);
        let other = thread::spawn(move || {
            read(ends);
            told.send(()).expect("heard");
        });
        hears.recv().expect("told");
        other.join().expect("no panic");
        gone(child);
    })
}

/// Likewise, for a thread that waits for ranks that are over.
pub(crate) fn in_a_debugger_after_other_ranks() -> Result<()> {
    late(|| {
        let [ends, begins] = pipe();
        let child = stops(this_thread(), begins);
        spmd::<Host>(1, |_| {
            read(ends);
            Ok(())
        })
        .expect("a rank that does nothing");
        gone(child);
    })
}

/// A thread waits in each way that does not only depend on threads of this process.
pub(crate) fn in_other_ways() -> Result<()> {
    late(|| {
        let (told, hears) = channel::<()>();
        assert_eq!(hears.recv_timeout(LONG), Err(RecvTimeoutError::Timeout));
        thread::park_timeout(LONG);
        let said = Command::new("sh").args(["-c", "sleep 0.4; echo on"]).output();
        assert_eq!(said.expect("a shell").stdout, b"on\n");
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        // Short-lived threads: each starts the next and ends.
        fn chain(left: u32, told: std::sync::mpsc::Sender<()>) {
            match left {
                0 => told.send(()).expect("heard"),
                _ => drop(thread::spawn(move || chain(left - 1, told))),
            }
        }
        chain(5000, told);
        hears.recv().expect("told");
    })
}

static SEATS: Mutex<Vec<Seat>> = Mutex::new(Vec::new());

/// A rank that connects for a while, gives up for now, and lets the other one proceed.
pub(crate) fn until_it_tries_again() -> Result<()> {
    *SEATS.lock().expect("no panic") = Seat::local(2);
    let seat = || SEATS.lock().expect("no panic").remove(0);
    let ((go, wait), mut tries) = (channel(), 0);
    let connect = move || -> Result<()> {
        let seat = seat();
        let device = Host::any(seat.rank().index() as u32)?;
        let mut starting = seat.start(device)?;
        let comm: Communicator<_, Ready> = loop {
            match starting.try_ready(Instant::now() + LONG) {
                Ok(comm) => break comm,
                Err(Failed { error, value }) => {
                    assert!(matches!(error, Error::Timeout(_)), "{error}");
                    tries += 1;
                    go.send(()).expect("heard");
                    starting = value;
                }
            }
        };
        assert!(tries > 0);
        comm.finish()
    };
    let other = thread::spawn(connect);
    wait.recv().expect("it tries");
    let seat = seat();
    let device = Host::any(seat.rank().index() as u32)?;
    seat.init(device)?.finish()?;
    drop(wait);
    other.join().map_err(|_| Error::other("it panicked"))?
}

/// A rank that finishes for a while, gives up for now, and lets the other one proceed.
pub(crate) fn until_it_finishes() -> Result<()> {
    let mut seats = Seat::local(2);
    let (go, wait) = channel();
    let first = seats.remove(0);
    let other = thread::spawn(move || -> Result<()> {
        let config = CommConfig::builder().deadline(LONG).build();
        let comm = Communicator::builder().seat(first).device(Host::any(0)?).config(config);
        // The other rank may be late here.
        let starting = comm.build().start()?;
        let mut comm = starting.ready().wait_until(Instant::now() + Duration::from_secs(60))?;
        while let Err(Failed { error, value }) = comm.try_finish() {
            assert!(matches!(error, Error::Timeout(_)), "{error}");
            go.send(()).ok();
            comm = value;
        }
        Ok(())
    });
    let comm = seats.remove(0).init(Host::any(1)?)?;
    wait.recv().expect("it tries");
    comm.finish()?;
    other.join().map_err(|_| Error::other("it panicked"))?
}
