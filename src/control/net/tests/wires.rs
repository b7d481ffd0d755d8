//! Messages of backends.

use super::*;

#[derive(Default)]
struct Received(Mutex<Vec<String>>);

impl Listener for Received {
    fn message(&self, from: Rank, message: &[u8]) {
        let text = format!("{from}: {}", String::from_utf8_lossy(message));
        self.0.lock().expect("no panic").push(text);
    }

    fn died(&self, rank: Rank, _: &str) {
        self.0.lock().expect("no panic").push(format!("{rank} died"));
    }
}

impl Received {
    fn until(&self, expected: &[&str]) {
        let started = Instant::now();
        loop {
            let received = self.0.lock().expect("no panic").clone();
            if received.len() >= expected.len() || started.elapsed() > LIMIT {
                assert_eq!(received, expected);
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn messages_reach_all_or_one_and_deaths_come_last() {
    let nodes = ranks(20);
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let wires: Vec<_> = nodes.iter().map(|node| node.control.wire().expect("a wire")).collect();
    wires[19].tell(None, b"to all".to_vec());
    wires[19].tell(Some(Rank(3)), b"to 3".to_vec());
    wires[19].tell(Some(Rank(2)), b"to 2".to_vec());
    wires[19].tell(Some(Rank(19)), b"to nobody".to_vec());
    let received: Vec<_> = nodes.iter().map(|_| Arc::new(Received::default())).collect();
    for (wire, received) in wires.iter().zip(&received) {
        let listener: Arc<dyn Listener> = received.clone();
        wire.listen(Arc::downgrade(&listener));
    }
    received[3].until(&["19: to all", "19: to 3"]);
    received[2].until(&["19: to all", "19: to 2"]);
    received[18].until(&["19: to all"]);
    nodes[19].kill();
    for (rank, received) in received.iter().enumerate().take(19) {
        match rank {
            2 => received.until(&["19: to all", "19: to 2", "19 died"]),
            3 => received.until(&["19: to all", "19: to 3", "19 died"]),
            _ => received.until(&["19: to all", "19 died"]),
        }
    }
    assert!(received[19].0.lock().expect("no panic").is_empty());
}
