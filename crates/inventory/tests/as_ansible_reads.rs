//! Inventories are read as Ansible reads them. Beside each inventory in `ansible/` is what Ansible made of it, once as it
//! is (`exported`) and once with the variables of groups merged into their hosts (`merged`); `record.sh` asks it again.

use std::collections::BTreeMap;

use bowline_inventory::{Format, read};
use bowline_model::host::{Connection, Inventory};
use bowline_model::name::Labels;

struct Case {
    name: &'static str,
    source: &'static str,
    format: Format,
    exported: &'static str,
    merged: &'static str,
}

macro_rules! case {
    ($file:literal, $format:expr) => {
        Case {
            name: $file,
            source: include_str!(concat!("ansible/", $file)),
            format: $format,
            exported: include_str!(concat!("ansible/", $file, ".exported")),
            merged: include_str!(concat!("ansible/", $file, ".merged")),
        }
    };
}

const CASES: [Case; 4] = [
    case!("datacenter.ini", Format::AnsibleIni),
    case!("precedence.ini", Format::AnsibleIni),
    case!("fleet.yml", Format::AnsibleYaml),
    case!("script.json", Format::AnsibleJson),
];

fn inventory(text: &str, format: Format) -> Inventory {
    read(text.as_bytes(), format).unwrap_or_else(|error| panic!("{error}"))
}

/// In the order of their names. Ansible keeps the priority of a group to itself; we keep it as a variable.
fn sorted(mut inventory: Inventory) -> Inventory {
    inventory.hosts.sort_by(|a, b| a.name.cmp(&b.name));
    inventory.groups.sort_by(|a, b| a.name.cmp(&b.name));
    for group in &mut inventory.groups {
        group.vars.remove("ansible_group_priority");
    }
    inventory
}

#[test]
fn hosts_groups_and_variables_are_the_same() {
    for case in CASES {
        let ours = sorted(inventory(case.source, case.format));
        let theirs = sorted(inventory(case.exported, Format::AnsibleJson));
        assert_eq!(ours, theirs, "{}", case.name);
    }
}

#[test]
fn every_host_is_reached_as_ansible_would_reach_it() {
    let reached = |inventory: Inventory| -> BTreeMap<String, (Connection, Labels)> {
        inventory.hosts.into_iter().map(|host| (host.name.to_string(), (host.connection, host.labels))).collect()
    };
    for case in CASES {
        // Where Ansible has merged everything into the hosts, there is no precedence left to get wrong.
        let mut merged: serde_json::Value = serde_json::from_str(case.merged).expect("JSON");
        for group in merged.as_object_mut().expect("groups").values_mut() {
            group.as_object_mut().expect("a group").remove("vars");
        }
        let theirs = reached(inventory(&merged.to_string(), Format::AnsibleJson));
        assert_eq!(reached(inventory(case.source, case.format)), theirs, "{}", case.name);
    }
}

#[test]
fn this_is_what_it_looks_like_here() {
    let mut shown = String::new();
    for case in CASES {
        let inventory = inventory(case.source, case.format);
        let written = bowline_inventory::write(&inventory, Format::Yaml).expect("YAML");
        shown.push_str(&format!("# {}\n{}\n", case.name, written.text));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn all_and_ungrouped_are_groups_only_where_variables_live_in_them() {
    let named = |text: &str| {
        let inventory = inventory(text, Format::AnsibleIni);
        let names = |names: &std::collections::BTreeSet<_>| format!("{names:?}").replace('"', "");
        let hosts = inventory.hosts.iter().map(|host| format!("{} {}", host.name, names(&host.groups)));
        let groups = inventory.groups.iter().map(|group| format!("@{} {}", group.name, names(&group.groups)));
        hosts.chain(groups).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(named("a\n[web]\nb\n"), "a {}, b {web}, @web {}");
    assert_eq!(named("a\n[web]\nb\n[all:vars]\nansible_user=root\n"), "a {}, b {web}, @web {}");
    assert_eq!(named("a\n[web]\nb\n[all:vars]\nx=1\n"), "a {all}, b {web}, @all {web}, @web {}");
    let both = "a {ungrouped}, b {web}, @all {ungrouped, web}, @ungrouped {}, @web {}";
    assert_eq!(named("a\n[web]\nb\n[all:vars]\nx=1\n[ungrouped:vars]\ny=1\n"), both);
}

#[test]
fn a_host_keeps_its_variables_also_if_a_group_has_its_name() {
    let inventory = inventory("[web]\nweb x=1\nother\n", Format::AnsibleIni);
    assert_eq!(inventory.hosts[0].vars["x"], 1);
    assert!(inventory.groups[0].vars.is_empty());
}
