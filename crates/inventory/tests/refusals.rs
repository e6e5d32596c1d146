//! What is refused, and in which words. The snapshots are what people will read.

use bowline_inventory::{Format, ImportError, limits, read};
use proptest::prelude::*;

fn refusal(format: Format, bytes: &[u8]) -> ImportError {
    match read(bytes, format) {
        Err(error) => error,
        Ok(_) => panic!("{format} took {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)])),
    }
}

fn said(format: Format, cases: &[&str]) -> String {
    cases.iter().map(|text| format!("{text:?}\n    {}\n", refusal(format, text.as_bytes()))).collect()
}

#[test]
fn in_our_own_yaml() {
    let said = said(
        Format::Yaml,
        &[
            "",
            "- web1",
            "hosts: web1",
            "host:\n  web1:",
            "hosts:\n  web1:\n    lables: {a: b}",
            "hosts:\n  web1: 12",
            "hosts:\n- labels: {a: b}",
            "hosts:\n  web1: {name: web2}",
            "hosts:\n- name: -oProxyCommand=x",
            "hosts:\n  --help:",
            "hosts:\n  \"a,b\":",
            "hosts:\n- name: web1\n- name: web1\n  labels: {a: b}",
            "hosts:\n  web1:\n  web1:",
            "hosts:\n  web1: {labels: {role: [a]}}",
            "hosts:\n  web1: {labels: {\"ro le\": a}}",
            "hosts:\n  web1: {groups: web}",
            "hosts:\n  web1: {groups: [\"we b\"]}",
            "hosts:\n  web1: {connection: ssh}",
            "hosts:\n  web1: {connection: {address: a}}",
            "hosts:\n  web1: {connection: {via: telnet}}",
            "hosts:\n  web1: {connection: {via: agent, address: a}}",
            "hosts:\n  web1: {connection: {via: ssh, port: 0}}",
            "hosts:\n  web1: {connection: {via: ssh, port: \"22\"}}",
            "hosts:\n  web1: {connection: {via: ssh, address: -oProxyCommand=x}}",
            "hosts:\n  web1: {connection: {via: ssh, user: \"a b\"}}",
            "groups:\n  web: {hosts: [web1]}",
            "groups:\n  a: {groups: [b]}\n  b: {groups: [a]}",
            "groups:\n- name: a\n- name: a\n  groups: [b]",
            "hosts:\n  web1: {vars: [1]}",
            "hosts:\n  web1: {vars: {a: !!python/object:os.system ls}}",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn in_our_own_json() {
    let said = said(
        Format::Json,
        &[
            "",
            "[]",
            "{\"hosts\": [{\"name\": \"web1\",}]}",
            "{\"hosts\": [{\"name\": 12}]}",
            "{\"hosts\": [{\"name\": \"web1\", \"labels\": {\"rack\": 12}}]}",
            "{\"hosts\": [{\"name\": \"web1\"}, {\"name\": \"web 1\"}]}",
            "{\"hosts\": [{\"name\": \"web1\", \"connection\": {\"via\": \"ssh\", \"adress\": \"a\"}}]}",
            "{\"hosts\": [], \"hosts\": []}",
            "{\"hosts\": {}} x",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn in_tables() {
    let said = said(
        Format::Csv,
        &[
            "",
            "groups\nweb",
            "name;groups\nweb1;web",
            "name,colour\nweb1,red",
            "name,name\nweb1,web2",
            "name,label:a,label:a\nweb1,b,c",
            "name,groups\nweb1",
            "name,groups\n,web",
            "name\nweb1\n-oProxyCommand=x",
            "name,port\nweb1,ssh",
            "name,via\nweb1,telnet",
            "name,via,address\nweb1,agent,10.0.0.1",
            "name,via,agent\nweb1,ssh,w1",
            "name,via,user\nweb1,simulate,root",
            "name,labels\nweb1,role",
            "name,labels,label:role\nweb1,role=web,db",
            "name,vars\nweb1,[1]",
            "name,vars,var:a\nweb1,\"{\"\"a\"\": 1}\",2",
            "name,groups\nweb1,a\nweb1,b",
            "name,var:a\nweb1,\"open\nweb2,x\n",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn in_hosts_files() {
    let said = said(
        Format::AnsibleIni,
        &[
            "web1\n-oProxyCommand=x",
            "--help",
            "host,other",
            "web1 ansible_host=-oProxyCommand=x",
            "web1 ansible_host='{{ ip }}'",
            "web1 ansible_port=ssh",
            "web1 ansible_user='a b'",
            "web1 ansible_password=hunter2",
            "web1 ansible_become_pass='{{ vault_pass }}'",
            "[web]\n[web:vars]\nansible_ssh_pass=hunter2",
            "web1 ansible_ssh_private_key_file='-----BEGIN OPENSSH PRIVATE KEY-----'",
            "win1 ansible_connection=winrm",
            "web1 bowline_labels=web",
            "web1 bowline_labels='a=b c'",
            "web1 bowline_via=telnet",
            "web1 secret words",
            "web1 a='open",
            "web1 a=b\\",
            "[web]\nweb[1:2",
            "[a b]",
            "[web:hostz]",
            "[web:vars]\na=1",
            "[web:children]\ndb",
            "[web:children]\ndb x",
            "[web]\n[web:vars]\nlonely",
            "[a:children]\nb\n[b:children]\na\n",
            "[a:children]\na\n",
            "[web]\n[web:children]\nall",
            "[web]\n[web:children]\nungrouped",
            "[web]\n[web:vars]\nansible_group_priority=high",
            "[w,eb]",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn in_ansible_yaml() {
    let said = said(
        Format::AnsibleYaml,
        &[
            "",
            "- web1",
            "plugin: amazon.aws.aws_ec2\nregions: [eu]",
            "all:\n  host:\n    web1:",
            "all:\n  hosts: [web1]",
            "all:\n  hosts:\n    web1: 12",
            "all: web1",
            "all:\n  hosts:\n    -oProxyCommand=x:",
            "all:\n  hosts:\n    web[1:3:\n",
            "all:\n  children:\n    web:\n      hosts:\n        web1:\n          ansible_ssh_pass: hunter2",
            "all:\n  hosts:\n    web1:\n      ansible_password: !vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        6162\n",
            "all:\n  vars:\n    api: {key: !vault x}",
            "all:\n  hosts:\n    web1:\n      ansible_host: [a]",
            "all:\n  children:\n    a: {children: {b: {children: {a: {}}}}}",
            "all:\n  hosts:\n    web1: {a: 1}\n    web1: {b: 1}",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn in_the_json_of_scripts() {
    let said = said(
        Format::AnsibleJson,
        &[
            "[]",
            "{\"web\": \"web1\"}",
            "{\"web\": {\"hosts\": {\"web1\": {}}}}",
            "{\"web\": {\"hosts\": [\"--help\"]}}",
            "{\"web1\": {\"ansible_host\": \"10.0.0.1\"}}",
            "{\"web\": [\"web1\"], \"_meta\": {\"hostvars\": {\"web1\": {\"ansible_password\": \"x\"}}}}",
            "{\"web\": [\"web1\"], \"_meta\": {\"hostvars\": {\"web1\": {\"token\": {\"__ansible_vault\": \"x\"}}}}}",
            "{\"web\": [\"web1\"], \"_meta\": {\"hostvars\": []}}",
            "{\"web\": {\"children\": [\"web\"]}}",
        ],
    );
    insta::assert_snapshot!(said);
}

#[test]
fn no_secret_is_repeated() {
    for (format, text) in [
        (Format::AnsibleIni, "web1 ansible_password=hunter2"),
        (Format::AnsibleIni, "web1 ansible_password=my hunter2"),
        (Format::AnsibleIni, "web1 ansible_password='hunter2"),
        (Format::AnsibleYaml, "all: {hosts: {web1: {ansible_password: hunter2}}}"),
        (Format::AnsibleJson, "{\"all\": {\"hosts\": [], \"vars\": {\"ansible_become_pass\": \"hunter2\"}}}"),
    ] {
        let error = refusal(format, text.as_bytes());
        assert!(!error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused_in_every_format() {
    for format in Format::ALL {
        assert_eq!(refusal(format, b"a\n\xff").to_string(), "line 2: the text is not UTF-8");
    }
}

#[test]
fn more_than_an_inventory_may_have_is_refused() {
    let refused = |format, text: &str, words: &str| {
        let error = refusal(format, text.as_bytes()).to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(Format::AnsibleIni, "a[1:60000]\nb[1:60000]\n", "line 2: there are more than 100000 hosts");
    refused(Format::AnsibleIni, "a[0:99][0:99][0:99]\n", "more than 100000 hosts");
    let everywhere: String = (0..30).map(|n| format!("[g{n}]\na[1:50000]\n")).collect();
    refused(Format::AnsibleIni, &everywhere, "more than 1000000 memberships");
    let heavy = format!("a[1:50000] x={}\n", "y".repeat(10_000));
    refused(Format::AnsibleIni, &heavy, "repeat more than 64 MiB");
    let heavy = format!("all: {{hosts: {{\"a[1:50000]\": {{x: {}}}}}}}", "y".repeat(10_000));
    refused(Format::AnsibleYaml, &heavy, "repeat more than 64 MiB");
    let groups: String = (0..10_001).map(|n| format!("[g{n}]\n")).collect();
    refused(Format::AnsibleIni, &groups, "more than 10000 groups");
    let groups: Vec<String> = (0..10_001).map(|n| format!("\"g{n}\"")).collect();
    refused(
        Format::Json,
        &format!("{{\"hosts\": [{{\"name\": \"a\", \"groups\": [{}]}}]}}", groups.join(",")),
        "more than 10000 groups",
    );
    let hosts: String = (0..100_001).map(|n| format!("h{n}\n")).collect();
    refused(Format::Csv, &format!("name\n{hosts}"), "more than 100000 hosts");
    let chain: String = (0..9_000).map(|n| format!("[g{n}:children]\ng{}\n", n + 1)).collect();
    refused(Format::AnsibleIni, &format!("{chain}[g9000]\n"), "nested in too many ways");
    let labels: Vec<String> = (0..32).map(|n| format!("k{n:060}={}", "v".repeat(63))).collect();
    let labelled = format!("[g]\nh[1:100000]\n[g:vars]\nbowline_labels={}\n", labels.join(","));
    refused(Format::AnsibleIni, &labelled, "repeat more than 64 MiB");
}

/// A line of a hosts file that stands for many hosts, with variables that each of them has.
fn any_range() -> impl Strategy<Value = String> {
    let range = (0..60_000_u32).prop_map(|last| format!("[1:{last}]"));
    let small = (0..40_u32).prop_map(|last| format!("[1:{last}]"));
    let place = prop_oneof![range, (small.clone(), small.clone(), small).prop_map(|(a, b, c)| format!("{a}{b}{c}"))];
    (0..3_u8, place, 0..4_000_usize).prop_map(|(name, place, bytes)| format!("h{name}{place} x={}", "y".repeat(bytes)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// A few lines can say very much. What is read is within the bounds, or it is refused.
    #[test]
    fn no_file_unfolds_beyond_the_bounds(
        ranges in prop::collection::vec((0..4_u8, any_range()), 1..4),
    ) {
        let lines = ranges.iter().map(|(group, range)| format!("[g{group}]\n{range}\n"));
        let file: String = lines.collect();
        if let Ok(inventory) = read(file.as_bytes(), Format::AnsibleIni) {
            prop_assert!(inventory.hosts.len() <= limits::HOSTS_MAX, "{} hosts", inventory.hosts.len());
            let copied: usize = inventory.hosts.iter().flat_map(|host| host.vars.values()).map(|v| v.to_string().len()).sum();
            prop_assert!(copied <= limits::COPIED_BYTES_MAX + file.len(), "{copied} bytes of {}", file.len());
            let mentions: usize = inventory.hosts.iter().map(|host| host.groups.len()).sum();
            prop_assert!(mentions <= limits::MENTIONS_MAX, "{mentions} memberships");
        }
    }

    /// Aliases of YAML, each naming the one before several times.
    #[test]
    fn no_alias_unfolds_beyond_the_bounds(levels in 1..12_usize, each in 1..9_usize, bytes in 1..2_000_usize) {
        let mut vars = format!("a0: &a0 \"{}\"\n", "x".repeat(bytes));
        for level in 1..levels {
            let names = vec![format!("*a{}", level - 1); each].join(", ");
            vars.push_str(&format!("      a{level}: &a{level} [{names}]\n"));
        }
        let file = format!("hosts:\n  - name: h\n    vars:\n      {vars}");
        let unfolded: f64 = (0..levels).map(|level| (each as f64).powf(level as f64) * bytes as f64).sum();
        match read(file.as_bytes(), Format::Yaml) {
            Ok(inventory) => {
                let written = inventory.hosts.iter().map(|host| bowline_model::host::json_bytes(&host.vars)).sum::<usize>();
                prop_assert!(written <= 2 * limits::COPIED_BYTES_MAX, "{written} bytes of {}", file.len());
            }
            Err(error) => prop_assert!(unfolded > 1e6, "{unfolded} bytes: {error}"),
        }
    }
}
