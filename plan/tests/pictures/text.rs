//! Timelines for terminals.

use crate::schedules::{gradients, halo, hierarchical, one_f1b, pipeline, ring_exchange};

#[test]
fn a_ring() {
    let ring = ring_exchange(3, 8);
    assert_eq!(
        ring.schedule.to_text(&ring.plan),
        "\
ring exchange, for n = 3, len = 8: 1 step

step  rank 0                    rank 1                    rank 2
   0  send a -> 1, recv b <- 2  send a -> 2, recv b <- 0  send a -> 0, recv b <- 1
"
    );
}

#[test]
fn a_pipeline() {
    let pipeline = pipeline(3, 2);
    assert_eq!(
        pipeline.schedule.to_text(&pipeline.plan),
        "\
pipeline forward, for p = 3, mb = 2, k = 4: 8 steps

step  on   rank 0            rank 1            rank 2
   0  net                    :                 :
   0  cmp  fwd 0
   1  net  send out[0] -> 1  recv act[0] <- 0  :
   2  net                                      :
   2  cmp  fwd 1             fwd 0
   3  net  :                 send out[0] -> 2  recv act[0] <- 1
   4  net  send out[1] -> 1  recv act[1] <- 0  :
   4  cmp                                      fwd 0
   5  net                                      :
   5  cmp                    fwd 1
   6  net                    send out[1] -> 2  recv act[1] <- 1
   7  cmp                                      fwd 1
:  launched, and waits for another rank
"
    );
}

#[test]
fn eight_ranks_fit() {
    for sketch in [
        halo(8),
        one_f1b(8, 8),
        one_f1b(16, 20),
        hierarchical(2, 4, 64),
        gradients(8, 64, 7, true),
        gradients(1000, 2, 7, false),
    ] {
        let text = sketch.schedule.to_text(&sketch.plan);
        for line in text.lines().skip(1) {
            assert!(line.chars().count() <= 100, "{line}");
        }
        let many = sketch.ranks() > 8;
        assert_eq!(text.contains("more ranks"), many);
    }
}

#[test]
fn long_plans_are_cut() {
    let long = gradients(2, 1000, 7, false);
    let text = long.schedule.to_text(&long.plan);
    assert!(text.contains("\n… 800 more lines\n"));
    assert_eq!(text.lines().count(), 2 + 1 + 200 + 1);
}
