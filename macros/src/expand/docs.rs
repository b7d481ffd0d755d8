//! Documentation of the module and its items.

use typed_nccl_plan::check::Accepted;
use typed_nccl_plan::ir::{Buffer, Role};

use crate::valid::{Computed, Valid};

/// Follows the user's own documentation: the sizes at which the plan was checked, and how to use
/// it.
pub(super) fn module(valid: &Valid, accepted: Option<&Accepted>) -> Vec<String> {
    let plan = &valid.plan;
    let mut lines = vec![
        String::new(),
        format!("The communication plan `{}`.", plan.name),
        String::new(),
        "`bind` makes it ready on a communicator, together with all ranks; `Bound::run` runs it."
            .to_owned(),
    ];
    if let Some(accepted) = accepted {
        lines.extend([String::new(), accepted.to_string()]);
    }
    lines
}

/// The role of a buffer for the caller.
pub(super) fn buffer(valid: &Valid, buffer: &Buffer) -> String {
    let len = valid.plan.show(&buffer.len);
    let role = match buffer.role {
        Role::In => "read by the plan",
        Role::Out => "filled by the plan",
        _ => "read and written by the plan",
    };
    let several = match &buffer.array {
        Some(array) => format!("`{}` buffers of ", valid.plan.show(&array.count)),
        None => String::new(),
    };
    let traits = match (buffer.copies, buffer.window) {
        (2, true) => ", a window in two copies that swap with every run",
        (2, false) => ", in two copies that swap with every run",
        (_, true) => ", a window",
        _ => "",
    };
    format!("`{}`: {several}`{len}` elements{traits}; {role}.", buffer.name)
}

/// The arguments of a compute step, and the stream that it runs on.
pub(super) fn method(computed: &Computed) -> Vec<String> {
    let mut says = computed.says.clone();
    says.push("`stream`, on which it has to enqueue its work".to_owned());
    let mut lines =
        vec![format!("The step `{}` of the plan (line {}).", computed.name, computed.at.line)];
    lines.push(String::new());
    lines.push(format!("It gets, in order: {}.", says.join(", ")));
    if !computed.computes.is_empty() {
        let computes = computed.computes.join("`, `");
        lines.extend([String::new(), format!("The plan says that it computes `{computes}`.")]);
    }
    lines
}
