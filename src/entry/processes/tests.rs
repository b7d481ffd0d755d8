//! Ranks that are small shell scripts.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::output::Sink;
use super::{Others, Signals, Watch};
use crate::lock::Mutex;

/// What was printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Printed {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<_> = self.text().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    }
}

struct Outcome {
    code: i32,
    out: Printed,
    error: Printed,
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

/// Something that scripts wait for: a file appears.
struct Sign(PathBuf);

impl Sign {
    fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let made = MADE.fetch_add(1, Relaxed);
        let name = format!("typed-nccl-sign.{}.{made}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn give(&self) {
        std::fs::write(&self.0, "").unwrap();
    }

    /// Makes a script give it.
    fn given(&self) -> String {
        format!("touch {}", self.0.display())
    }

    /// Makes a script wait for it.
    fn awaited(&self) -> String {
        format!("until [ -e {} ]; do sleep 0.01; done", self.0.display())
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs one script per rank; `signals` supplies the incoming signals, by what was printed to both
/// streams.
fn run_with(
    scripts: &[&str],
    others: Others,
    signals: impl FnMut(&Printed, &Printed) -> Vec<i32> + Send + 'static,
) -> Outcome {
    let (out, error) = (Printed::default(), Printed::default());
    let lock = |printed: &Printed| Arc::new(Mutex::new(printed.clone()));
    let sink = Sink { out: lock(&out), error: lock(&error) };
    let commands: Vec<_> = scripts.iter().map(|script| shell(script)).collect();
    let (told, over) = mpsc::channel();
    let (mut signals, seen) = (signals, (out.clone(), error.clone()));
    // The starting thread must live as long as they may.
    thread::spawn(move || {
        let watch = Watch::start(commands, sink, others).expect("the shell starts");
        let _ = told.send(watch.watch(|| signals(&seen.0, &seen.1)));
    });
    let code = over.recv_timeout(Duration::from_secs(60)).expect("it hangs");
    Outcome { code, out, error }
}

fn run(scripts: &[&str]) -> Outcome {
    run_with(scripts, Others::End, |_, _| Vec::new())
}

#[test]
fn lines_keep_together() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do printf a; printf b; echo \"c$i\"; done";
    let Outcome { code, out, error } = run(&[script, script, script]);
    let ranks = 0..3;
    let expected: Vec<_> =
        ranks.flat_map(|rank| (1..10).map(move |i| format!("[{rank}] abc{i}"))).collect();
    assert_eq!((code, out.lines(), error.text()), (0, expected, String::new()));
}

#[test]
fn each_stream_goes_its_own_way() {
    let Outcome { code, out, error } = run(&["echo out; echo error >&2"]);
    assert_eq!((code, out.text(), error.text()), (0, "[0] out\n".into(), "[0] error\n".into()));
}

#[test]
fn the_last_line_may_have_no_newline() {
    let Outcome { out, .. } = run(&["printf 'one\\n\\ntwo'"]);
    assert_eq!(out.text(), "[0] one\n[0] \n[0] two\n");
}

#[test]
fn a_long_line_comes_in_pieces() {
    let Outcome { code, out, .. } =
        run(&["head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end"]);
    let (text, mut xs) = (out.text(), 0);
    let mut lines: Vec<_> = text.lines().collect();
    assert_eq!((code, lines.pop()), (0, Some("[0] end")));
    for line in lines {
        let line = line.strip_prefix("[0] ").expect("every piece has its rank");
        assert!(line.len() <= (64 << 10) + (8 << 10) && line.bytes().all(|byte| byte == b'x'));
        xs += line.len();
    }
    assert_eq!(xs, 1_000_000);
}

#[test]
fn the_first_failure_ends_all() {
    let Outcome { code, error, .. } = run(&["sleep 600", "exit 7", "sleep 600"]);
    assert_eq!(code, 7);
    let text = error.text();
    assert!(text.contains("rank 1 (process ") && text.contains("exit code 7"), "{text}");
}

#[test]
fn the_others_go_on_if_that_is_asked_for() {
    // Runs them until the others have ended; rank 1 goes on then.
    let run = |scripts: &dyn Fn(String) -> Vec<String>, others: usize| {
        let sign = Sign::new();
        let scripts = scripts(sign.awaited());
        let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
        run_with(&scripts, Others::GoOn, move |_, error| {
            if error.lines().len() == others {
                sign.give();
            }
            Vec::new()
        })
    };
    let scripts = |awaited| {
        vec!["kill -KILL $$".to_owned(), format!("{awaited}; echo done"), "exit 7".to_owned()]
    };
    let Outcome { code, out, error } = run(&scripts, 2);
    assert_eq!((code, out.text()), (0, "[1] done\n".into()));
    let text = error.text();
    for words in ["rank 0 (process ", "signal 9; the others go on", "rank 2 (process ", "code 7"] {
        assert!(text.contains(words), "{text}");
    }
    // No process is left that succeeded.
    let scripts = |awaited| vec!["exit 7".to_owned(), format!("{awaited}; exit 3")];
    let Outcome { code, error, .. } = run(&scripts, 1);
    let text = error.text();
    assert_eq!((code, text.contains("exit code 3\n")), (7, true), "{text}");
    let first = "typed-nccl: no rank ended well; the first to fail was rank 0 (process ";
    assert!(text.contains(first) && text.ends_with("), ended with exit code 7\n"), "{text}");
}

/// Makes a script report a word.
fn word(word: &str) -> String {
    format!("echo {word} > /proc/self/fd/${{TYPED_NCCL_TELLS%:*}}")
}

#[test]
fn the_first_is_the_one_that_no_other_made_fail() {
    let named = |scripts: &[&str], rank: usize, code: i32| {
        let Outcome { code: found, error, .. } = run(scripts);
        let text = error.text();
        assert!(
            text.starts_with(&format!("typed-nccl: the first to fail was rank {rank} (p")),
            "{text}"
        );
        assert_eq!((text.lines().count(), found), (1, code), "{text}");
    };
    // A process that was told of another's failure ends first, in any way.
    let (told, told_and_ends) = (word("others runs"), word("others 1"));
    let (exits, killed) = (format!("{told}; exit 4"), format!("{told}; kill -KILL $$"));
    let returns = format!("{told_and_ends}; exit 1");
    for other in [&exits, &killed, &returns] {
        named(&[other, "sleep 0.2; exit 7"], 1, 7);
        named(&["sleep 0.2; kill -SEGV $$", other], 0, 139);
    }
    // Of two with reasons of their own, the first to report counts; an uncertain one counts less.
    let (own, unsure) = (word("own 1"), word("unsure 1"));
    let said = Sign::new();
    let later = format!("{}; sleep 1.5; exit 7", said.awaited());
    let slow = format!("{own}; {}; sleep 2.5; exit 1", said.given());
    named(&[&later, &slow], 1, 1);
    named(&[&format!("{unsure}; exit 3"), "sleep 0.2; exit 7"], 1, 7);
    // An earlier failure that it was told of.
    let said = Sign::new();
    let later = format!("{}; sleep 1.5; exit 7", said.awaited());
    let goes_on = format!("{told}; {}; {}; exit 5", word("own runs"), said.given());
    named(&[&later, &goes_on], 1, 5);
    // It is killed on its way out.
    let stays = format!("{own}; sleep 600");
    named(&[&exits, &stays], 1, 1);
    // It has reported its cause.
    let mended = format!("{own}; exit 0");
    named(&[&mended, &exits], 1, 4);
}

#[test]
fn a_program_that_ignores_sigterm_is_killed() {
    let stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let Outcome { code, out, .. } = run(&[stubborn, "sleep 0.3; exit 3"]);
    assert_eq!((code, out.text()), (3, "[0] ready\n".into()));
}

#[test]
fn the_others_may_say_what_they_heard() {
    let hears = "trap 'echo heard; exit 1' TERM; echo ready; while :; do sleep 0.1; done";
    let Outcome { code, out, .. } = run(&[hears, "sleep 0.3; exit 3"]);
    assert_eq!((code, out.text()), (3, "[0] ready\n[0] heard\n".into()));
}

#[test]
fn a_signal_that_kills_has_the_shells_code() {
    let Outcome { code, error, .. } = run(&["sleep 600", "kill -SEGV $$"]);
    assert_eq!(code, 128 + 11);
    assert!(error.text().contains("rank 1") && error.text().contains("signal 11"));
}

#[test]
fn what_a_rank_has_started_ends_with_it() {
    // The inner process holds the output, and would keep it open for ten minutes.
    let Outcome { code, out, .. } = run(&["sleep 600 & echo $!"]);
    assert_eq!(code, 0);
    let started = out.text().trim_start_matches("[0] ").trim().to_owned();
    // It has been killed; the system ends it in its own time.
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    let since = Instant::now();
    while runs() {
        assert!(since.elapsed() < Duration::from_secs(30), "it runs on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn signals_are_passed_on() {
    let script = "trap 'echo told; exit 0' USR1; echo ready; while :; do sleep 0.1; done";
    let mut sent = false;
    let Outcome { code, out, .. } = run_with(&[script, script], Others::End, move |seen, _| {
        let ready =
            seen.lines().len() == 2 && !std::mem::replace(&mut sent, seen.lines().len() == 2);
        if ready { vec![libc::SIGUSR1] } else { Vec::new() }
    });
    let expected = ["[0] ready", "[0] told", "[1] ready", "[1] told"];
    assert_eq!((code, out.lines()), (0, expected.map(str::to_owned).to_vec()));
}

/// The launcher's own end is no rank's fault.
#[test]
fn a_launcher_that_is_told_to_end_blames_no_rank() {
    let says = |script: &str, others: Others| {
        let (mut sent, rank) =
            (false, format!("{script}; echo ready; while :; do sleep 0.1; done"));
        let Outcome { error, .. } = run_with(&[&rank, &rank], others, move |seen, _| {
            let is_first = seen.lines().len() == 2 && !std::mem::replace(&mut sent, true);
            if is_first { vec![libc::SIGTERM] } else { Vec::new() }
        });
        // The shell reports on its own children.
        let text = error.text();
        let ours = text.lines().filter(|line| line.starts_with("typed-nccl: "));
        ours.flat_map(|line| [line, "\n"]).collect::<String>()
    };
    let told = "typed-nccl: the launcher was told to end by signal 15, and told its ranks";
    assert_eq!(says(":", Others::End), format!("{told}\n"));
    let text = says(":", Others::GoOn);
    assert!(text.ends_with(&format!("{told}\n")) && !text.contains("go on"), "{text}");
    // How a rank took it is of interest.
    let text = says("trap 'exit 3' TERM", Others::End);
    let after = format!("{told}; the first to fail after that was rank ");
    assert!(text.starts_with(&after) && text.ends_with("), ended with exit code 3\n"), "{text}");
}

#[test]
fn the_second_interrupt_ends_what_ignores_the_first() {
    let script = "trap '' INT TERM; echo ready; while :; do sleep 0.1; done";
    let mut calls = 0;
    let Outcome { code, .. } = run_with(&[script], Others::End, move |seen, _| {
        calls += usize::from(!seen.lines().is_empty());
        if calls == 1 || calls == 20 { vec![libc::SIGINT] } else { Vec::new() }
    });
    assert_eq!(code, 128 + libc::SIGKILL);
}

#[test]
fn a_program_that_is_not_there() {
    let sink = Sink::own();
    let commands = vec![shell("sleep 600"), Command::new("/no/such/program")];
    let Err(error) = Watch::start(commands, sink, Others::End) else { panic!("it cannot start") };
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn signals_that_come_are_kept() {
    let signals = Signals::listen().expect("handlers can be set");
    assert_eq!(signals.take(), [0; 0]);
    signal_hook::low_level::raise(libc::SIGUSR2).expect("a signal can be raised");
    assert_eq!((signals.take(), signals.take()), (vec![libc::SIGUSR2], vec![]));
}
