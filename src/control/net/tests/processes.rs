//! Real processes: each runs `one_process` of this program.

use super::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command as Program, Stdio};

const RANK: &str = "TYPED_NCCL_TEST_RANK";
const PATH: &str = "TYPED_NCCL_TEST_PATH";
const SIZE: usize = 5;
/// A rank says so when it has met the others.
const MET: &str = "it has met the others";

/// Does nothing unless the test below starts it.
#[test]
fn one_process() {
    let (Ok(rank), Ok(path)) = (std::env::var(RANK), std::env::var(PATH)) else { return };
    let rank: usize = rank.parse().expect("a number");
    let meeting = crate::control::file(path.as_ref(), rank, SIZE).expect("it can be looked for");
    let hub = super::super::hub::hub().expect("it is there");
    let node = Node::of(meeting, 0, hub, rank);
    node.exchange("init", b"", LIMIT).expect("all come");
    println!("{MET}");
    loop {
        if let Err(error) = node.exchange("barrier", b"", LIMIT) {
            println!("FOUND {error}");
            return;
        }
    }
}

fn start(path: &std::path::Path, rank: usize) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut program = Program::new(program);
    program.args(["--exact", "control::net::tests::processes::one_process", "--nocapture"]);
    program.env(RANK, rank.to_string()).env(PATH, path).stdout(Stdio::piped());
    program.spawn().expect("it starts")
}

/// Waits until it has met the others; what it prints then.
fn meets(child: &mut Child) -> BufReader<ChildStdout> {
    let mut prints = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains(MET) {
        line.clear();
        assert_ne!(prints.read_line(&mut line).expect("it can be read"), 0, "it has not met them");
    }
    prints
}

#[test]
fn a_killed_process_is_named_by_all_others() {
    let dice = &mut Dice(3);
    for round in 0..2 {
        let path = std::env::temp_dir().join(format!("typed-nccl-test-{:x}", random()));
        let mut children: Vec<Child> = (0..SIZE).map(|rank| start(&path, rank)).collect();
        let prints: Vec<_> = children.iter_mut().map(meets).collect();
        thread::sleep(Duration::from_millis(dice.roll(100) as u64));
        let victim = if round == 0 { 0 } else { dice.roll(SIZE) };
        let pid = children[victim].id();
        children[victim].kill().expect("it runs");
        for (rank, (mut child, mut prints)) in children.into_iter().zip(prints).enumerate() {
            let mut said = String::new();
            prints.read_to_string(&mut said).expect("it ends");
            child.wait().expect("it ends");
            if rank != victim {
                // The others end because of the victim; a rank that cannot reach one of those names
                // it too.
                let (said_so, end) = (format!("rank {victim}"), format!("process {pid})"));
                assert!(said.contains(&said_so) && said.contains(&end), "rank {rank}: {said}");
            }
        }
        std::fs::remove_file(path).expect("rank 0 has written it");
    }
}
