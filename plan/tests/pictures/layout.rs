//! Timelines as SVG: everything has its place.

use super::sheet::Sheet;
use crate::schedules::{
    CMP, NET, Sketch, compute, gradients, halo, hierarchical, one_f1b, part, pipeline, put,
    ring_exchange, wait,
};

fn sheet(sketch: &Sketch) -> Sheet {
    Sheet::read(&sketch.schedule.to_svg(&sketch.plan))
}

/// What is raised early and awaited late: wires that pass other steps.
fn awaited_late(n: u32, steps: u32) -> Sketch {
    let mut sketch = halo(n);
    for r in 0..n {
        sketch.schedule.ranks[r as usize].calls.clear();
        sketch.schedule.ranks[r as usize].events = 0;
        let (left, right) = ((r + n - 1) % n, (r + 1) % n);
        for step in 0..steps {
            let line = 10 + step;
            if (r + step) % 3 == 0 {
                let u = part(0, 0, 0, 4);
                sketch.group(r, &[], line, vec![put(u, right, u, 0), put(u, left, u, 1)]);
            }
            for i in 0..=(r + step) % 4 {
                let after: &[u32] = if i == 2 { &[NET] } else { &[] };
                sketch.call(r, CMP, after, line, compute("step", Some(i.into())));
            }
            if (r + step) % 5 == 4 {
                sketch.group(r, &[CMP], line, vec![wait(&[(0, left), (1, right)])]);
            }
        }
    }
    sketch
}

#[test]
fn every_timeline_can_be_read() {
    let sketches = [
        ("ring", ring_exchange(4, 8)),
        ("ring of one", ring_exchange(1, 8)),
        ("ring of many", ring_exchange(40, 8)),
        ("halo", halo(5)),
        ("halo of many", halo(33)),
        ("pipeline", pipeline(4, 5)),
        ("1F1B", one_f1b(4, 6)),
        ("1F1B of many", one_f1b(20, 24)),
        ("hierarchical", hierarchical(3, 4, 64)),
        ("hierarchical of many", hierarchical(4, 8, 64)),
        ("gradients", gradients(4, 64, 256, true)),
        ("gradients one by one", gradients(17, 70, 256, false)),
        ("awaited late", awaited_late(5, 12)),
        ("awaited late by many", awaited_late(20, 40)),
        ("nothing", gradients(3, 0, 1, true)),
    ];
    for (name, sketch) in sketches {
        sheet(&sketch).is_readable(name);
    }
}

#[test]
fn a_ring_shows_its_ranks_and_messages() {
    let ring = sheet(&ring_exchange(4, 8));
    for words in ["rank 0", "rank 3", "send a -> 1", "recv b <- 2", "message"] {
        assert!(ring.says(words), "no `{words}`");
    }
    // Three pieces for each message, and one in the key.
    assert_eq!(ring.lines.iter().filter(|(ink, _)| ink == "#0969da").count(), 3 * 4 + 1);
    assert!(ring.titles.iter().any(|title| title.contains("line 9")));
}

#[test]
fn what_is_left_out_is_counted() {
    let many = sheet(&one_f1b(20, 24));
    assert!(many.says("… 4 more ranks") && many.says("rank 15") && !many.says("rank 16"));
    assert!(many.texts.iter().any(|(text, _)| text.ends_with("more steps")));
    let group = sheet(&gradients(2, 64, 1, true));
    assert!(
        group.says("… 59 more") && group.says("all_reduce g[4]") && !group.says("all_reduce g[5]")
    );
}

#[test]
fn a_schedule_of_another_plan_is_drawn_all_the_same() {
    let (mut sketch, other) = (halo(3), ring_exchange(2, 4));
    sketch.plan = other.plan;
    sheet(&sketch).is_readable("another plan");
    sketch.schedule.to_text(&sketch.plan);
    sketch.schedule.to_mermaid(&sketch.plan);
    sketch.schedule.ranks.clear();
    sheet(&sketch).is_readable("no ranks");
    sketch.schedule.to_text(&sketch.plan);
}

#[test]
fn long_names_are_wrapped_or_cut() {
    let mut sketch = halo(3);
    sketch.schedule.plan = "a halo of a long name ".repeat(20);
    sketch.plan.streams[0].name = "stream".repeat(20);
    sketch.plan.buffers[0].name = "buffer".repeat(20);
    let sheet = sheet(&sketch);
    sheet.is_readable("long names");
    assert!(sheet.width < 1500.0);
    assert!(sheet.titles.iter().any(|title| title.contains(&"buffer".repeat(20))));
    let text = sketch.schedule.to_text(&sketch.plan);
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 100), "{text}");
}
