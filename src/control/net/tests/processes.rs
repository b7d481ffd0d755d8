//! Real processes: each runs `one_process` of this program.

use super::*;
use std::process::{Child, Command as Program, Stdio};

const RANK: &str = "TYPED_NCCL_TEST_RANK";
const PATH: &str = "TYPED_NCCL_TEST_PATH";
const SIZE: usize = 5;

/// Does nothing unless the test below starts it.
#[test]
fn one_process() {
    let (Ok(rank), Ok(path)) = (std::env::var(RANK), std::env::var(PATH)) else { return };
    let rank: usize = rank.parse().expect("a number");
    let meeting = crate::control::file(path.as_ref(), rank, SIZE).expect("it can be looked for");
    let hub = super::super::hub::hub().expect("it is there");
    let node = Node::of(meeting, 0, hub, rank);
    loop {
        if let Err(error) = node.exchange("barrier", b"", Duration::from_secs(10)) {
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

#[test]
fn a_killed_process_is_named_by_all_others() {
    let dice = &mut Dice(3);
    for round in 0..2 {
        let path = std::env::temp_dir().join(format!("typed-nccl-test-{:x}", random()));
        let mut children: Vec<Child> = (0..SIZE).map(|rank| start(&path, rank)).collect();
        thread::sleep(Duration::from_millis(400 + dice.roll(100) as u64));
        let victim = if round == 0 { 0 } else { dice.roll(SIZE) };
        let pid = children[victim].id();
        children[victim].kill().expect("it runs");
        for (rank, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stdout);
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
