//! What a check found.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing to do.
    Note,
    /// A job can fail, hang or be slow.
    Problem,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The check.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), remedy: None }
    }

    pub(crate) fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Note, found: found.into(), remedy: None }
    }

    pub(crate) fn problem(
        check: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check, level: Level::Problem, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// Whether something is to be mended.
    pub fn is_problem(&self) -> bool {
        self.level == Level::Problem
    }
}

/// The findings for people: a line each, with the remedy below.
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { check, level, found, remedy } in findings {
        let level = match level {
            Level::Ok => "ok     ",
            Level::Note => "note   ",
            Level::Problem => "PROBLEM",
        };
        text += &format!("{level}  {check}: {found}\n");
        if let Some(remedy) = remedy {
            text += &format!("         -> {remedy}\n");
        }
    }
    let problems = findings.iter().filter(|finding| finding.is_problem()).count();
    text += &match problems {
        0 => "no problem found\n".to_owned(),
        1 => "1 problem found\n".to_owned(),
        _ => format!("{problems} problems found\n"),
    };
    text
}

/// The findings for programs: an array of objects.
pub fn json(findings: &[Finding]) -> String {
    // Strings always encode.
    serde_json::to_string_pretty(findings).unwrap_or_default() + "\n"
}
