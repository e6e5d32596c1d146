//! The promises every ledger keeps: the specification of storage, in sentences.
//!
//! A promise is a function named as a sentence. It takes a [`Bench`] with an empty ledger and panics when the ledger
//! breaks it. An adapter calls [`for_each_promise!`](crate::for_each_promise) once and has them all; a promise that is
//! not in that list does not pass the test below.
//! Never here: an engine, a file, a network. What only one engine can do is tested beside that engine.

pub mod agents;
pub mod approvals;
pub mod audit;
mod bench;
pub mod bounds;
pub mod claims;
pub mod clock;
pub mod dead_letters;
pub mod deadlines;
pub mod events;
pub mod evidence;
pub mod fleets;
pub mod flows;
pub mod hosts;
pub mod jobs;
pub mod kept;
pub mod keys;
pub mod late_truth;
pub mod leases;
pub mod maintenance;
pub mod once;
pub mod orders;
pub mod reports;
pub mod resources;
pub mod schedules;
pub mod standing;
pub mod tenancy;
pub mod texts;
pub mod tokens;
pub mod told;
pub mod workers;

pub use bench::*;

/// Hands the list of all promises, by noun, to a macro of the adapter, which makes a test of each.
#[macro_export]
macro_rules! for_each_promise {
    ($make:ident) => {
        $make! {
            jobs:
                a_job_is_accepted_and_found_again
                a_job_keeps_everything_that_was_said_about_it
                a_job_without_a_policy_has_the_default_one
                nothing_submitted_is_nothing_stored
                answers_come_in_the_order_of_the_jobs
                numbers_grow_with_every_job
                the_same_id_asked_twice_is_stored_once
                the_same_id_twice_in_one_batch_is_stored_once
                the_same_id_asked_by_many_at_once_is_stored_once
                a_second_ask_is_answered_with_how_the_job_stands_now
                a_job_for_later_waits_for_its_moment
                a_job_for_a_moment_in_the_past_is_queued_at_once
                jobs_that_are_due_are_queued_longest_waiting_first_and_no_more_than_asked
                a_new_timer_rings
                jobs_are_listed_newest_first_in_pages
                a_list_is_narrowed_by_status_lane_and_type
                a_list_is_narrowed_by_time
                a_list_is_narrowed_by_actor_label_and_text
                a_job_is_found_by_its_number_and_by_the_end_of_its_id
                a_waiting_job_knows_how_many_are_ahead
                the_lowest_and_the_highest_priority_are_priorities
                jobs_of_many_callers_are_all_kept
            ;
            deadlines:
                a_job_that_nobody_takes_fails_at_its_deadline
                a_deadline_counts_from_the_moment_its_job_is_for
                a_deadline_ends_the_wait_for_a_retry
                a_running_job_fails_at_its_deadline_and_its_run_has_no_authority
                a_job_that_is_being_canceled_is_canceled_at_its_deadline
                a_job_that_ended_in_time_has_no_deadline
                a_retried_job_has_its_whole_time_again
                no_deadline_passes_by_a_clock_that_is_held
                a_deadline_does_not_wait_for_a_future_that_was_wrong
            ;
            keys:
                equal_keys_and_bodies_are_one_job
                another_body_under_the_same_key_is_a_conflict
                another_key_is_another_job
                an_external_id_is_a_key_too
                the_two_sorts_of_keys_do_not_collide
                keys_belong_to_their_tenant
                keys_hold_inside_one_batch
                a_refused_body_hides_nobody_in_its_batch
                a_job_with_two_keys_is_found_by_either
                a_job_with_one_taken_key_leaves_the_other_free
                a_refused_job_of_a_batch_leaves_its_other_key_free
                a_key_nobody_kept_goes_to_the_next_in_the_batch
                two_keys_of_two_jobs_are_a_conflict
                many_askers_with_one_key_get_one_job
                a_key_is_new_after_its_time
                a_key_ages_from_the_first_ask
                a_free_key_beside_a_known_one_belongs_to_the_same_job
                an_external_id_outlives_its_job
                the_keys_of_a_removed_job_go_with_it
                the_keys_that_a_removed_job_was_given_later_go_with_it
                any_text_can_be_a_key
                what_was_asked_under_a_key_is_found_by_tenant_and_scope
            ;
            standing:
                it_takes_at_once_what_is_there
                it_takes_what_is_queued_in_the_same_transaction
                it_takes_what_becomes_due
                it_takes_no_more_than_it_wants
                it_is_not_answered_with_nothing
                it_ends_when_it_is_withdrawn_or_another_comes;
            claims:
                nothing_waiting_is_an_empty_answer
                a_claimed_run_says_what_it_is
                a_payload_arrives_as_it_was_written
                priority_comes_before_age
                a_worker_gets_no_more_than_it_wants
                long_payloads_are_handed_out_in_pieces
                long_commands_count_with_each_of_their_hosts
                a_worker_gets_only_its_types
                a_worker_gets_only_what_its_labels_allow
                a_worker_gets_only_what_its_resources_allow
                a_worker_gets_only_its_tenants_runs
                lanes_share_by_weight
                a_lane_alone_gets_all_places
                what_one_line_cannot_fill_another_one_does
                no_lane_starves
                tenants_take_turns
                a_claim_leaves_the_tenants_it_passes_over_to_others
                round_robin_gives_one_each
                the_least_loaded_worker_comes_first
                the_best_match_leaves_generalists_free
                at_random_everybody_is_served_in_the_end
                no_run_is_claimed_twice
                every_job_is_done_once_while_everybody_is_busy
                an_insider_confirms_with_the_hand_out
                every_hand_out_is_a_new_run_with_a_higher_fence
                queued_work_rings_for_workers
                looking_for_work_takes_nothing_away
                a_name_of_a_worker_is_kept_as_it_is
            ;
            flows:
                a_definition_is_kept_once
                what_was_done_before_is_stored_with_the_job
                a_run_that_has_done_nothing_hears_that_it_should
                a_run_for_later_waits_for_its_moment
                what_is_said_to_a_run_for_later_waits_with_it
                a_turn_is_added_once_whoever_else_takes_it
                what_a_stale_turn_heard_is_heard_again
                a_message_is_heard_once_whatever_version_the_listener_knows
                the_end_of_a_job_comes_to_the_run_that_began_it
                messages_of_tenants_that_are_passed_over_do_not_stand_in_the_way_of_others
                a_large_result_of_a_job_is_heard_of_by_its_length
                jobs_that_a_run_no_longer_wants_are_stopped
                a_paused_run_is_woken_at_its_moment
                a_canceled_run_hears_of_it_and_ends_when_it_says_so
                a_run_that_was_over_says_nothing_about_its_job
                a_run_that_is_given_up_leaves_nothing_behind
                a_wait_that_follows_a_wait_is_told
                runs_are_listed_by_workflow_by_parent_and_without_children
                a_wait_is_ended_by_one
                a_decision_that_was_taken_is_heard
                an_editor_counts_as_a_requester
                a_second_try_of_an_approved_run_repeats_the_approval
                a_job_behind_an_approval_is_retried_as_its_execution_is
                waits_are_walked_page_by_page_oldest_first
                an_event_comes_to_those_who_wait_for_it
                a_signal_is_stored_once_and_comes_to_each_of_many_once
                signals_that_are_not_taken_in_are_bounded
                an_execution_takes_so_many_messages_and_no_more
                what_is_read_of_executions_is_known_before_and_comes_in_pages
                a_run_is_read_from_its_last_snapshot_or_from_a_past_one
                records_are_read_page_by_page_also_where_no_step_was_made
                runs_go_when_their_time_is_over_with_all_that_was_kept_of_them
                definitions_go_when_no_run_needs_them
                a_run_can_begin_with_a_definition_that_is_gone
                the_same_ask_begins_one_run
                a_question_is_answered_by_as_many_people_as_it_asks
                an_edit_withdraws_open_questions
                a_yes_does_not_count_when_the_names_behind_it_have_changed
                a_vote_and_a_change_exclude_each_other
            ;
            texts:
                a_wait_is_called_as_it_was_called
                what_a_run_says_and_gives_is_kept
                keys_and_reasons_are_kept
                what_went_wrong_is_told_whatever_is_in_it
                a_command_with_an_odd_text_hides_no_other_job
            ;
            leases:
                a_heartbeat_confirms_a_run
                a_heartbeat_renews_the_lease
                heartbeats_are_answered_in_the_order_of_the_runs
                a_heartbeat_speaks_only_for_its_own_runs
                runs_that_are_given_up_are_named
                a_silent_run_is_lost_and_its_job_queued_again
                what_was_judged_once_is_not_judged_again
                a_lost_lease_does_not_eat_the_retry_budget
                poison_ends_in_the_dead_letters_after_its_losses
                work_that_must_not_be_done_twice_ends_when_its_worker_is_lost
                an_unconfirmed_hand_out_returns_without_counting
                a_hand_out_that_was_not_delivered_is_given_back
                a_heartbeat_after_the_lease_is_gone_is_stale
                nobody_is_lost_before_a_whole_lease_since_the_watermark
                nobody_is_lost_by_a_judgement_that_comes_late
                a_run_that_renews_for_ever_times_out_at_last
                the_reaper_counts_the_leases_that_go_on
                only_the_silent_are_lost
                an_insider_beats_for_every_tenant
                a_heartbeat_without_names_renews_all_runs_of_its_worker
                a_run_renewed_without_its_name_has_ten_minutes
                a_worker_that_names_its_runs_is_known_for_it
            ;
            reports:
                a_large_result_is_named_by_the_job_that_succeeded_with_it
                a_large_result_of_a_refused_report_is_not_named
                a_success_ends_the_job
                a_report_needs_no_heartbeat_before_it
                a_failure_waits_its_backoff_and_is_tried_again
                a_random_backoff_stays_within_its_bounds
                a_failure_without_backoff_is_queued_at_once
                exhausted_attempts_end_in_the_dead_letters
                a_permanent_failure_is_dead_at_once
                a_job_that_wants_no_dead_letter_just_fails
                a_report_told_twice_counts_once
                a_report_twice_in_one_batch_counts_once
                another_word_about_an_ended_run_changes_nothing
                a_report_by_another_worker_is_refused
                a_report_from_another_tenant_finds_nothing
                a_report_about_an_unknown_run_finds_nothing
                a_report_that_names_another_job_finds_nothing
                a_stale_fence_is_refused
                reports_are_answered_in_their_order
                reports_about_one_job_are_taken_one_after_the_other
                a_failure_with_any_text_is_recorded
                a_failure_by_any_name_is_a_failure
                a_failure_without_a_word_has_a_word_for_it
                a_worker_may_cancel_its_own_run
                the_result_of_a_failure_is_not_a_result
            ;
            late_truth:
                a_late_success_corrects_a_job_that_nobody_has_begun_again
                a_late_success_behind_a_newer_attempt_is_evidence_only
                a_late_word_does_not_change_a_job_that_ended
                a_late_failure_is_evidence_and_the_next_attempt_stands
                a_late_success_takes_a_job_out_of_the_dead_letters
                a_late_success_corrects_a_job_that_ended_as_error
                a_returned_run_that_did_run_is_believed
                a_returned_run_that_did_run_is_evidence_beside_the_next_one
                a_lost_run_that_stopped_itself_ends_its_job
                a_canceled_job_whose_vanished_worker_had_succeeded_has_succeeded
                a_late_success_counts_until_the_retry_has_begun
                a_run_that_timed_out_is_not_corrected
            ;
            orders:
                a_queued_job_is_canceled_at_once
                a_scheduled_job_is_canceled_at_once
                a_job_that_waits_for_its_retry_is_canceled_at_once
                a_running_job_is_asked_to_stop_and_confirms
                a_job_that_was_just_handed_out_is_asked_to_stop
                a_job_that_succeeds_before_it_can_stop_has_succeeded
                a_job_that_fails_while_it_stops_is_canceled
                a_canceling_job_whose_worker_vanishes_ends_canceled
                a_worker_that_was_cut_off_hears_of_the_cancel_when_it_is_back
                a_canceling_job_that_was_never_confirmed_ends_canceled
                a_canceling_job_that_does_not_stop_ends_canceled
                a_finished_job_cannot_be_canceled
                canceling_twice_is_canceling_once
                an_order_is_told_with_who_and_why
                a_dead_job_is_tried_again_with_a_fresh_budget
                a_dead_job_whose_letter_is_closed_is_not_tried_again
                a_job_that_ended_badly_in_any_way_can_be_tried_again
                a_job_that_is_not_over_cannot_be_retried
                an_order_about_an_unknown_job_finds_nothing
                canceling_and_claiming_at_once_leaves_no_job_in_two_places
            ;
            told:
                told_events_may_come_in_any_order
                told_events_are_kept_once
                a_gap_is_remembered_until_it_is_filled
                the_report_names_the_last_number
                a_number_means_one_thing
                what_was_told_is_read_back
                a_run_reports_so_many_bytes_and_ends_all_the_same
                telling_is_a_sign_of_life
                events_of_a_lost_run_are_evidence
                nobody_tells_about_somebody_elses_run
                a_telling_that_is_not_json_fails_alone
                a_long_story_told_backwards_is_held_in_the_end
            ;
            once:
                a_retry_is_made_once_for_its_key
                a_block_is_made_and_lifted_once_for_its_key
                dead_letters_are_closed_once_for_a_key
                equal_requests_at_once_are_carried_out_once
            ;
            dead_letters:
                a_dead_job_lies_in_its_lane
                dead_letters_are_listed_newest_first_in_pages
                a_replay_makes_one_new_job_of_the_old_one
                whoever_closes_second_is_told_what_the_first_did
                replays_at_once_make_one_job
                one_order_that_names_a_job_twice_makes_one_job
                a_purge_keeps_who_and_why
                a_purge_closes_nothing_in_another_lane
                the_oldest_are_chosen_first
                a_job_without_a_dead_letter_is_not_found
                a_job_that_dies_again_lies_there_again
                a_replayed_job_that_dies_can_be_replayed_again
            ;
            events:
                a_life_is_told_in_its_order
                the_events_of_a_job_come_in_pages
                pages_of_events_are_bounded_in_bytes
                an_unknown_job_has_no_events
                an_event_is_the_same_for_every_reader
                a_follower_sees_every_event_once_while_writers_are_busy
                a_filter_narrows_the_stream
                a_page_without_a_match_moves_on
                the_range_ends_with_the_newest
                the_stream_can_be_read_backwards
                since_begins_near_its_moment
                a_notice_belongs_to_no_job
                a_new_event_rings_for_readers
            ;
            tenancy:
                no_question_shows_a_neighbours_jobs
                no_question_shows_a_neighbours_events
                no_question_shows_a_neighbours_dead_letters
                no_question_shows_a_neighbours_workers_and_tokens
                no_order_reaches_a_neighbours_job
                no_order_reaches_a_neighbours_worker_or_token
                an_id_that_a_neighbour_uses_too_is_another_job
            ;
            tokens:
                a_tenant_is_created_and_found
                a_tenants_name_is_given_once
                what_happens_to_tokens_is_told
                a_token_is_created_and_found
                a_tokens_id_is_given_once
                a_token_is_revoked_once
                an_administrator_revokes_anybodys_token
                tokens_end_with_the_one_they_were_made_with
                workers_outlive_the_token_they_were_made_with
                a_revoked_token_makes_no_token
            ;
            workers:
                a_worker_registers_and_is_found
                a_worker_without_labels_or_types_is_one_too
                a_worker_that_registers_again_is_the_same_worker
                a_heartbeat_says_that_a_worker_is_there
                a_worker_is_drained_and_taken_back
            ;
            hosts:
                a_described_host_is_found_as_it_was_described
                describing_again_changes_only_what_differs
                what_is_not_mentioned_stays_or_goes_as_wanted
                a_host_that_comes_back_is_another_host
                a_circle_of_groups_is_refused_and_nothing_changes
                variables_of_all_groups_together_are_bounded
                hosts_are_listed_by_name_in_pages
                pages_of_hosts_are_bounded_in_bytes
                groups_and_groups_in_groups_are_bounded
                ten_thousand_hosts_come_in_one_go
                whoever_stands_twice_in_a_description_is_what_the_last_line_says
                descriptions_at_once_are_made_true_one_after_the_other
                a_change_of_an_inventory_is_told_with_who_and_what
                nobody_sees_or_changes_a_neighbours_inventory
            ;
            resources:
                a_resource_is_stored_and_found_as_it_was_written
                a_change_is_found_by_whoever_was_told_of_it
                storing_the_same_again_makes_no_version
                a_version_may_wait_before_it_counts
                a_resource_that_was_never_activated_shows_its_latest
                going_back_is_moving_the_pointer
                an_activation_is_carried_out_once_for_its_key
                a_writer_who_has_not_seen_the_latest_is_told
                writers_at_once_get_a_version_each
                resources_are_listed_by_name_and_versions_newest_first
                a_secret_that_a_command_names_is_not_deleted
                a_broker_that_a_trigger_reads_from_is_not_deleted
                what_counts_is_listed_for_all_tenants
                lists_of_resources_are_bounded_in_bytes
                a_version_keeps_the_document_it_was_applied_from
                a_deleted_resource_is_gone_with_its_versions
                what_happens_to_resources_is_told_with_who_and_why
                nobody_sees_or_changes_a_neighbours_resource
                documents_are_applied_together_or_not_at_all
            ;
            schedules:
                a_schedule_counts_from_its_activation
                a_schedule_belongs_to_the_one_who_applied_it_last
                a_firing_stores_its_jobs_and_moves_on
                only_the_first_of_two_firings_counts
                servers_at_once_start_one_job_for_each_instant
                a_changed_schedule_overtakes_what_was_decided_before
                time_that_was_considered_stays_considered
                a_schedule_that_was_made_again_starts_no_instant_twice
                at_most_one_job_at_a_time_where_that_is_wanted
                what_could_not_be_started_is_remembered_and_told
                schedules_that_are_due_come_longest_waiting_first
                an_activation_rings
                a_deleted_schedule_starts_nothing
                a_trigger_starts_a_job_and_is_recorded
                a_trigger_waits_for_the_last_job_where_that_is_wanted
                schedules_are_listed_by_name
                nobody_sees_or_fires_a_neighbours_schedule
            ;
            fleets:
                a_command_runs_once_on_every_host_and_succeeds
                hosts_are_begun_in_bites
                hosts_with_large_variables_are_begun_a_few_at_a_time
                conductors_at_once_begin_every_host_once
                a_failed_host_fails_the_command_and_says_so
                hosts_that_time_out_or_cannot_be_reached_say_so
                a_host_where_nothing_started_is_tried_again_and_then_unreachable
                a_host_is_tried_again_as_its_policy_says
                a_batch_begins_when_the_one_before_is_over
                a_failing_canary_stops_the_command
                too_many_failures_take_back_what_has_not_begun
                a_canceled_command_stops_on_its_hosts
                a_command_past_its_time_is_stopped_and_fails
                a_command_for_later_begins_at_its_moment
                a_host_has_one_exclusive_run_at_a_time_in_order
                those_who_share_a_host_do_not_pass_one_who_wants_it_alone
                a_waiting_host_that_is_canceled_lets_the_next_one_in
                whoever_has_a_host_alone_has_a_higher_fence_for_it
                a_run_goes_to_the_agent_of_its_host
                a_command_gets_what_it_asks_about_each_host
                a_block_in_the_last_moment_counts
                a_block_by_selector_holds_for_whoever_is_meant_then
                a_block_ends_by_itself_or_by_order
                blocks_that_cost_too_much_hold_and_there_are_only_so_many
                a_block_that_cannot_be_read_holds_its_inventory_and_nothing_else
                nothing_runs_on_a_host_that_was_taken_out
                a_lost_host_that_did_succeed_corrects_its_command
                only_what_did_not_succeed_runs_again
                the_same_command_asked_twice_is_one
                a_list_of_jobs_shows_commands_and_not_their_hosts
                events_name_the_host_and_the_command
                a_resource_cannot_be_deleted_while_a_command_needs_it
                retention_takes_a_command_with_its_hosts
                nobody_sees_or_moves_a_neighbours_command
                many_commands_on_few_hosts_all_end
                a_command_begins_however_many_run_long_before_it
            ;
            kept:
                nobody_gets_a_host_while_a_lost_run_could_be_there
                a_host_is_free_when_the_lost_run_tells_its_end
                an_agent_that_lost_sight_of_its_run_says_no_end
                a_lost_run_is_tried_again_when_it_must_be_over
                a_run_whose_end_is_unknown_is_not_tried_again_beside_itself
                those_who_share_a_host_share_it_with_a_missing_run
                a_hosts_own_agent_is_its_gate
                a_removed_agent_is_no_gate_and_its_runs_are_lost
                a_person_releases_a_kept_host
                a_canceled_run_that_vanished_keeps_its_host
            ;
            approvals:
                what_waits_for_approval_is_listed_in_pages
                nothing_runs_before_it_is_approved
                a_rejected_command_never_runs
                the_first_decision_wins
                whoever_asked_cannot_approve_under_four_eyes
                a_quorum_needs_different_people
                a_change_of_what_will_run_supersedes_the_approval
                an_approval_nobody_gives_expires
                a_canceled_command_needs_no_decision_any_more
                a_command_that_needs_no_approval_says_so
                nobody_decides_for_a_neighbour
                a_quorum_counts_people_and_not_tokens
                a_host_that_changed_after_the_yes_is_superseded
                a_superseded_host_counts_as_failed
                a_rule_that_is_activated_later_holds_for_what_has_not_started
                a_secret_that_points_elsewhere_supersedes_what_has_not_started
                a_second_try_of_an_approved_command_is_asked_for_again
                a_rejected_second_try_never_runs
            ;
            audit:
                a_record_says_who_did_what_to_what_and_why
                every_privileged_deed_is_recorded
                what_was_there_already_is_not_recorded
                ordinary_work_is_not_recorded
                a_command_on_hosts_is_recorded_with_who_asked_for_it
                a_command_that_starts_with_its_execution_is_recorded
                what_changed_nothing_is_recorded_too
                a_change_of_configuration_is_recorded_with_what_it_changed
                a_change_of_hosts_is_recorded_with_what_it_changed
                numbers_have_no_gap_while_many_act_at_once
                a_second_decision_is_refused_and_recorded
                a_chain_belongs_to_its_tenant
                records_are_listed_either_way_in_pages_and_by_what_is_asked
                retention_leaves_the_trail_alone
            ;
            bounds:
                waiting_jobs_are_counted_for_each_tenant
                executions_count_until_they_end
                stored_bytes_grow_with_payloads_for_their_tenant_alone
                stored_bytes_count_executions_their_messages_and_variables_of_hosts
                stored_bytes_count_versions_of_resources_and_reported_events
                an_evaluation_is_set_aside_once_and_resumed_by_its_tenant
            ;
            agents:
                a_join_token_lets_one_agent_in
                a_join_token_that_was_used_says_so
                an_agent_with_its_old_key_is_admitted_anew
                an_agents_credential_is_renewed
                a_worker_token_and_an_agent_never_share_a_name
                the_last_sealing_key_of_an_agent_counts
                agents_that_join_at_once_with_one_token_are_one
                a_join_token_that_is_old_or_of_another_tenant_lets_nobody_in
                a_name_and_a_key_are_given_once
                a_removed_agent_leaves_its_name_and_key_free
                an_agent_that_registers_while_it_is_removed_is_not_stored
                agents_are_listed_by_name_in_pages_with_who_admitted_them
                news_of_many_runs_come_together
                two_tellings_of_one_run_in_one_shipment_are_taken_in_order
                output_is_found_in_order_and_counts_up_to_a_gap
                nobody_brings_or_sees_output_of_another_ones_run
                output_ends_at_its_limit_and_some_time_after_its_run
                ranges_that_overlap_count_with_all_their_bytes
                retention_says_whose_output_is_to_go
                all_servers_of_a_ledger_keep_output_in_one_place
            ;
            evidence:
                an_end_that_the_ledger_lacks_is_taken_over_once
                runs_of_jobs_that_are_not_here_are_noted_once
                an_end_of_another_job_settles_nothing
                an_end_of_a_part_names_its_command
                hosts_are_leased_under_higher_numbers_than_agents_have_seen
                an_agent_speaks_for_the_hosts_that_it_reaches_and_no_others
                an_agent_that_tells_of_many_runs_takes_no_other_agents_share
            ;
            clock:
                work_goes_on_while_the_clock_is_held
                nothing_ends_by_a_clock_that_is_held
                a_run_with_jobs_is_woken_once_while_the_clock_is_held
                what_began_in_a_wrong_future_moves_with_the_clock
                retention_passes_over_jobs_of_a_wrong_future
                an_accepted_clock_decides_again
                nothing_waits_for_a_future_that_was_wrong
                a_refused_hand_out_waits_for_no_wrong_future
                everything_leaves_a_wrong_future_however_much_it_is
            ;
            maintenance:
                the_ledger_tells_its_own_time
                lane_depths_count_what_waits_where
                a_job_is_counted_in_one_place_at_any_moment
                retention_removes_finished_jobs_that_are_old
                retention_passes_over_jobs_that_live
                events_may_outlive_their_job
                the_range_tells_how_far_events_are_gone
                retention_keeps_open_dead_letters
                numbers_are_not_given_twice_after_retention
                positions_are_not_given_twice_after_retention
                retention_comes_in_bites
                retention_removes_notices_and_keys_that_are_old
                verify_counts_what_it_looked_at
                a_full_backlog_is_unavailable
                a_full_backlog_does_not_stop_workers
                a_closed_ledger_refuses_everything
            ;
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    macro_rules! sources {
        ($($noun:ident: $($promise:ident)* ;)*) => {
            [$((stringify!($noun), include_str!(concat!(stringify!($noun), ".rs")), &[$(stringify!($promise)),*][..]),)*]
        };
    }

    /// What nobody lists, nobody tries.
    #[test]
    fn every_promise_is_in_the_list() {
        for (noun, source, listed) in for_each_promise!(sources) {
            let written: BTreeSet<&str> = source
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
                .filter_map(|line| line.split('(').next())
                .collect();
            assert_eq!(written, listed.iter().copied().collect(), "the promises about {noun}");
        }
    }
}
