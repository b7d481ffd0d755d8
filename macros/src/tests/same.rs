//! Plans in the language equal those from the builder.

use serde_json::Value;
use typed_nccl_plan::ir::Plan;

use super::{plans, source};

/// Everything except places, and names that the language derives differently.
fn stripped(plan: &Plan) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("at");
                fields.values_mut().for_each(strip);
            }
            Value::Array(list) => list.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut plan = plan.clone();
    plan.name = String::new();
    plan.files = Vec::new();
    plan.counters.iter_mut().for_each(|counter| counter.name = String::new());
    let mut value = serde_json::to_value(&plan).expect("JSON");
    strip(&mut value);
    value
}

fn same(name: &str, builder: &Plan) {
    let (written, built) = (source::ir(name), builder);
    if stripped(&written) != stripped(built) {
        let (left, right) = (stripped(&written), stripped(built));
        let (left, right) = (format!("{left:#}"), format!("{right:#}"));
        let differ = left.lines().zip(right.lines()).enumerate().find(|(_, (a, b))| a != b);
        let (line, _) = differ.unwrap_or_default();
        let near = |text: &str| {
            text.lines().skip(line.saturating_sub(12)).take(24).collect::<Vec<_>>().join("\n")
        };
        panic!("{name}\nwritten:\n{}\nbuilt:\n{}", near(&left), near(&right));
    }
}

/// A loop over a list equals its block, repeated.
#[test]
fn a_block_for_each_of_a_list() {
    let ir = |text: &str| {
        let (valid, faults) = source::read(text.parse().expect("tokens"));
        assert!(faults.is_empty());
        stripped(&valid.expect("a plan").plan)
    };
    let head = "tree(n: Ranks in 1..=8, len: usize) { inout x: [f32; len]; stream net, compute;";
    let listed = ir(&format!(
        "{head} for d in [1, 2, 2 * 2] {{
            let far = rank + d;
            if rank < d {{ send x to far into x on net; }}
            run look(d, read x) on compute;
        }} }}"
    ));
    let round = |d: &str| {
        format!(
            "if rank < {d} {{ send x to rank + {d} into x on net; }} run look({d}, read x) on compute;"
        )
    };
    let written = ir(&format!("{head} {} {} {} }}", round("1"), round("2"), round("(2 * 2)")));
    assert_eq!(listed, written);
}

/// A named list equals the same list in its place, and an element of it a choice.
#[test]
fn constants_equal_what_is_written_out() {
    let ir = |body: &str| {
        let head = "tree(n: Ranks in [4], len: usize) { inout x: [f32; len];";
        let (valid, faults) = source::read(format!("{head} {body} }}").parse().expect("tokens"));
        assert!(faults.is_empty(), "{body}");
        stripped(&valid.expect("a plan").plan)
    };
    let hop =
        |from: &str, to: &str| format!("if rank == {from} {{ send x to rank({to}) into x; }}");
    let written = ir(&format!("{} {}", hop("0", "1"), hop("1", "3")));
    let named = "const edges = [(0, 1), (1, 3)];";
    assert_eq!(ir(&format!("{named} for (a, b) in edges {{ {} }}", hop("a", "b"))), written);
    let listed = format!("for (a, b) in [(0, 1), (1, 3)] {{ {} }}", hop("a", "b"));
    assert_eq!(ir(&listed), written);

    assert_eq!(
        ir("const next = [1, 3, 0, 2]; send x to rank(next[2]) into x;"),
        ir("send x to rank(0) into x;")
    );
    assert_eq!(
        ir("const places = [0, 2]; computes x = sum(for r in places { x of rank(r) }); \
            all_reduce(x, sum);"),
        ir("computes x = sum(x of rank(0), x of rank(2)); all_reduce(x, sum);")
    );
    assert_eq!(
        ir("const places = [0, 2]; computes { for r in places { x[r..r + 1] = x[0..1]; } } \
            all_reduce(x, sum);"),
        ir("computes { x[0..1] = x[0..1]; x[2..2 + 1] = x[0..1]; } all_reduce(x, sum);")
    );
}

#[test]
fn good_plans() {
    for (name, builder) in plans::good() {
        same(name, &builder.unchecked().expect("a plan"));
    }
}

#[test]
fn near_misses() {
    for (name, near_miss) in plans::near_misses() {
        same(name, &near_miss.plan.unchecked().expect("a plan"));
    }
}
