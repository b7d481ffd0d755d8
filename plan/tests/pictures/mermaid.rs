//! Timelines as Mermaid diagrams.

use crate::schedules::{gradients, halo, hierarchical, one_f1b};

#[test]
fn a_pipeline_of_two() {
    let sketch = one_f1b(2, 2);
    assert_eq!(
        sketch.schedule.to_mermaid(&sketch.plan),
        "\
sequenceDiagram
  accTitle: 1F1B, for p = 2, mb = 2, k = 4: 9 steps
  participant r0 as rank 0
  participant r1 as rank 1
  Note over r0: fwd 0<br/>on cmp
  r0->>r1: send out[0] -> 1
  Note over r0: fwd 1<br/>on cmp
  Note over r1: fwd 0<br/>on cmp
  Note over r1: bwd 0<br/>on cmp
  r0->>r1: send out[1] -> 1
  r1->>r0: send gin[0] -> 0
  Note over r0: bwd 0<br/>on cmp
  Note over r1: fwd 1<br/>on cmp
  Note over r1: bwd 1<br/>on cmp
  r1->>r0: send gin[1] -> 0
  Note over r0: bwd 1<br/>on cmp
"
    );
}

#[test]
fn a_collective_stands_over_its_ranks() {
    let sketch = hierarchical(2, 2, 4);
    let text = sketch.schedule.to_mermaid(&sketch.plan);
    assert!(text.contains("  Note over r2,r3: reduce_scatter x -> x[0..2] on node\n"), "{text}");
    // Those of a rail do not stand side by side.
    assert!(text.contains("  Note over r0: all_reduce x[0..2] on rail<br/>with 2\n"), "{text}");
}

#[test]
fn puts_raise_signals() {
    let sketch = halo(3);
    let text = sketch.schedule.to_mermaid(&sketch.plan);
    assert!(text.contains("  r0--)r2: put u[2..4] -> 2 u[14..16] !hi\n"), "{text}");
    assert!(
        text.contains("  Note over r1: wait !hi #60;- 2<br/>wait !lo #60;- 0<br/>on net\n"),
        "{text}"
    );
}

#[test]
fn what_is_left_out_is_counted() {
    let sketch = gradients(40, 500, 1, false);
    let text = sketch.schedule.to_mermaid(&sketch.plan);
    assert!(text.contains("… 24 more ranks") && text.contains("… 100 more lines"));
    assert_eq!(text.lines().filter(|line| line.contains("participant")).count(), 16);
}
