//! Mermaid's flowcharts. Whatever somebody calls a node is text there, and never a part of the drawing.

use std::fmt::Write;

use super::look::{self, Outline};
use super::{NodeStatus, Picture};

pub(super) fn draw(picture: &Picture<'_>) -> String {
    let mut text = String::from("flowchart TD\n");
    for (index, node) in picture.nodes.iter().enumerate() {
        let (open, close) = match look::of(node.node_type).0 {
            Outline::Pill => ("([", "])"),
            Outline::Hexagon => ("{{", "}}"),
            Outline::Bar => ("[/", "\\]"),
            Outline::Box => ("[", "]"),
            Outline::Stack => ("[[", "]]"),
            Outline::Round => ("(", ")"),
        };
        let (name, kind) = (escape(node.name), escape(node.node_type));
        // Writing into a text cannot fail.
        let _ = writeln!(text, "    n{index}{open}\"{name}<br/><small>{kind}</small>\"{close}");
    }
    for edge in &picture.edges {
        let (source, target) = (edge.source, edge.target);
        let _ = match edge.on {
            None => writeln!(text, "    n{source} --> n{target}"),
            Some(on) if edge.is_for_failures => writeln!(text, "    n{source} -. \"{on}\" .-> n{target}"),
            Some(on) => writeln!(text, "    n{source} -- \"{}\" --> n{target}", escape(on)),
        };
    }
    if let Some(handler) = picture.handler {
        let _ = writeln!(text, "    on_error>\"on error\"] -.-> n{handler}");
    }
    for (status, name, style) in [
        (NodeStatus::Done, "done", "stroke:#3f9a5f,stroke-width:3px"),
        (NodeStatus::Failed, "failed", "stroke:#d0463b,stroke-width:3px"),
        (NodeStatus::Waiting, "waiting", "stroke:#c98a1c,stroke-width:3px,stroke-dasharray:5 3"),
        (NodeStatus::Current, "current", "stroke:#3d7fd0,stroke-width:4px"),
    ] {
        let nodes = picture.nodes.iter().enumerate().filter(|(_, node)| node.status == Some(status));
        let nodes: Vec<String> = nodes.map(|(index, _)| format!("n{index}")).collect();
        if !nodes.is_empty() {
            let _ = writeln!(text, "    classDef {name} {style}\n    class {} {name}", nodes.join(","));
        }
    }
    text
}

/// As Mermaid writes characters that mean something to it: by their number.
fn escape(text: &str) -> String {
    const CHARACTERS_MAX: usize = 80;
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars().take(CHARACTERS_MAX) {
        match character {
            ' ' | '_' | '-' | '.' | ',' | ':' | '/' | '?' | '!' | '(' | ')' | '=' | '+' | '@' => {
                escaped.push(character);
            }
            character if character.is_alphanumeric() => escaped.push(character),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push_str(&format!("#{};", u32::from(character))),
        }
    }
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        escaped.push('…');
    }
    escaped
}
