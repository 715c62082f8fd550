-- Approvals: what needs people's consent runs only with it, whoever writes the rows.
--
-- Votes are rows of `approvals`, appended and never changed, each bound to the hash of the arguments its actor saw.
-- A call's quorum is `approvals_required` different actors with an approving vote for its arguments as they stand;
-- `approved_at` says that it is there, and only this file sets it. SQLSTATE AI002 is the error code
-- NOT_APPROVED, AI003 STALE_APPROVAL.
--
-- Lock order: generation -> tool call -> approval. A vote takes both locks first, so two votes, a vote and a
-- put-down, a vote and a cancel come one after the other, and the later one sees what the earlier one did.

create or replace function "ai_db".has_quorum(call_id text, hash text, needed integer) returns boolean language sql stable as $$
  select count(distinct a.actor_id) >= needed
    from "ai_db".approvals a
   where a.tool_call_id = call_id and a.action = 'approved' and a.args_hash = hash
$$;

-- Nobody executes a call that needs approvals before it has them; nobody lowers the bar or says it was passed.
create or replace function "ai_db".guard_approval() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    if new.status = 'executing' or new.approved_at is not null then
      raise exception 'tool_calls: a call that needs approval cannot be born % (id %)',
        case when new.status = 'executing' then 'executing' else 'approved' end, new.id
        using errcode = 'AI002', hint = 'Insert it as pending; approveToolCall() lets it run.';
    end if;
    return new;
  end if;
  if new.approvals_required < old.approvals_required then
    raise exception 'tool_calls: approvals_required cannot be lowered (id %)', old.id
      using errcode = 'AI002', hint = 'Let people approve the call, or deny it.';
  end if;
  if new.args_hash <> old.args_hash or new.approvals_required > old.approvals_required then
    -- What was approved is not what would run now.
    new.approved_at := null;
  end if;
  if ((new.status = 'executing' and old.status <> 'executing')
      or (new.approved_at is not null and old.approved_at is null))
     and not "ai_db".has_quorum(new.id, new.args_hash, new.approvals_required) then
    raise exception 'tool_calls: % approvals of these arguments are missing before it may run (id %)',
      new.approvals_required, new.id
      using errcode = 'AI002', hint = 'Approve it with approveToolCall() first.';
  end if;
  return new;
end $$;

-- Triggers run in the order of their names: this one after tool_calls_args_hash.
create trigger tool_calls_guard_approval_insert before insert on "ai_db".tool_calls for each row
  when (new.approvals_required > 0)
  execute function "ai_db".guard_approval();

create trigger tool_calls_guard_approval_update before update on "ai_db".tool_calls for each row
  when (new.approvals_required > 0 or old.approvals_required > 0)
  execute function "ai_db".guard_approval();

-- Who is to be asked finds a row to show, and the trail begins with the question.
create or replace function "ai_db".request_approval() returns trigger language plpgsql as $$
begin
  insert into "ai_db".approvals (tool_call_id, session_id, action, actor_id, args_hash)
    select new.id, new.session_id, 'requested', g.agent_name, new.args_hash
      from "ai_db".generations g where g.id = new.generation_id;
  return null;
end $$;

create trigger tool_calls_request_approval after insert on "ai_db".tool_calls for each row
  when (new.approvals_required > 0 and new.status = 'pending')
  execute function "ai_db".request_approval();

-- A vote counts for a call that waits for it, and for the arguments it has now.
create or replace function "ai_db".guard_vote() returns trigger language plpgsql as $$
declare
  asked record;
begin
  perform 1 from "ai_db".generations g
    where g.id = (select c.generation_id from "ai_db".tool_calls c where c.id = new.tool_call_id) for no key update;
  select c.id, c.session_id, c.status, c.args_hash, c.approvals_required into asked
    from "ai_db".tool_calls c where c.id = new.tool_call_id for no key update;
  if not found then
    return new; -- the foreign key refuses it
  end if;
  new.session_id := asked.session_id;
  if asked.approvals_required = 0 then
    raise exception 'tool call % needs no approval', asked.id
      using errcode = 'AI001', column = 'toolCallId', hint = 'Vote on calls with approvalsRequired above 0.';
  end if;
  if asked.status <> 'pending' then
    raise exception 'tool call % is % already', asked.id, asked.status
      using errcode = 'AI001', column = 'toolCallId',
        hint = 'Vote while it is pending; to stop what runs, cancel its generation.';
  end if;
  if asked.args_hash <> new.args_hash then
    raise exception 'the vote is for other arguments than tool call % has now', asked.id
      using errcode = 'AI003', column = 'argsHash', hint = 'Look at the arguments again, and vote with their hash.';
  end if;
  return new;
end $$;

create trigger approvals_guard_vote before insert on "ai_db".approvals for each row
  when (new.action in ('approved', 'denied'))
  execute function "ai_db".guard_vote();

-- One denial fails the call; the last approval lets it run. Any vote touches the call, so that whoever watches it sees one.
create or replace function "ai_db".apply_vote() returns trigger language plpgsql as $$
begin
  if new.action = 'denied' then
    update "ai_db".tool_calls c set
      status = 'failed', completed_at = now(),
      error = 'denied by ' || new.actor_id || coalesce(': ' || nullif(new.reason, ''), '')
     where c.id = new.tool_call_id;
    return null;
  end if;
  -- Approved, it has its whole time again to be taken up.
  update "ai_db".tool_calls c set
    approved_at = case when c.approved_at is null
        and "ai_db".has_quorum(c.id, c.args_hash, c.approvals_required) then now() else c.approved_at end,
    expires_at = case when c.approved_at is null
        and "ai_db".has_quorum(c.id, c.args_hash, c.approvals_required) then now() + (c.expires_at - c.created_at)
      else c.expires_at end
   where c.id = new.tool_call_id;
  return null;
end $$;

create trigger approvals_apply_vote after insert on "ai_db".approvals for each row
  when (new.action in ('approved', 'denied'))
  execute function "ai_db".apply_vote();

-- The vote that completes the quorum wakes whoever may run the call: executors of the tool, and the generation,
-- whose worker may have its function.
create or replace function "ai_db".wake_approved() returns trigger language plpgsql as $$
declare
  holder record;
begin
  perform "ai_db".ring('tool-call', array[new.name]);
  select g.id, g.status, g.wait_reason into holder
    from "ai_db".generations g where g.id = new.generation_id for no key update;
  if holder.status = 'waiting' and holder.wait_reason in ('tools', 'approval') then
    update "ai_db".generations g set status = 'pending', wait_reason = null, run_at = now()
     where g.id = new.generation_id;
  elsif holder.status = 'generating' then
    perform pg_notify(tg_table_schema, 'settled:' || new.generation_id);
  end if;
  return null;
end $$;

create trigger tool_calls_approved after update on "ai_db".tool_calls for each row
  when (old.approved_at is null and new.approved_at is not null and new.status = 'pending')
  execute function "ai_db".wake_approved();

-- Nobody answered in time: that is an event of the trail as well.
create or replace function "ai_db".record_expiry() returns trigger language plpgsql as $$
begin
  insert into "ai_db".approvals (tool_call_id, session_id, action, actor_id, args_hash)
    select new.id, new.session_id, 'expired', g.agent_name, new.args_hash
      from "ai_db".generations g where g.id = new.generation_id
       and not exists (select 1 from "ai_db".approvals a where a.tool_call_id = new.id and a.action = 'denied');
  return null;
end $$;

create trigger tool_calls_expired after update on "ai_db".tool_calls for each row
  when (old.status = 'pending' and new.status = 'failed' and new.approvals_required > 0 and new.approved_at is null
    and new.expires_at < now())
  execute function "ai_db".record_expiry();

-- A vote, by people. Repeating one, or voting the same again from another tab, answers like the first time.
create or replace function "ai_db".vote_on_tool_call(
  in_session text, call_id text, vote_id text, voter text, hash text, vote text, why text
) returns text language plpgsql as $$
declare
  earlier "ai_db".approvals%rowtype;
  outcome text;
begin
  perform 1 from "ai_db".generations g
    where g.id = (select c.generation_id from "ai_db".tool_calls c where c.id = call_id and c.session_id = in_session)
    for no key update;
  perform 1 from "ai_db".tool_calls c where c.id = call_id and c.session_id = in_session for no key update;
  if not found then
    raise exception 'there is no tool call % in this session', call_id
      using errcode = 'AI004', column = 'toolCallId', hint = 'Check the id.';
  end if;
  select a.* into earlier from "ai_db".approvals a where a.id = vote_id;
  if found and (earlier.tool_call_id, earlier.actor_id, earlier.action, earlier.args_hash)
      is distinct from (call_id, voter, vote, hash) then
    raise exception 'the vote % was cast already, as another', vote_id
      using errcode = 'AI007', column = 'id', hint = 'Send a new id.';
  end if;
  if earlier.id is null then
    select a.* into earlier from "ai_db".approvals a
     where a.tool_call_id = call_id and a.actor_id = voter and a.args_hash = hash and a.action in ('approved', 'denied');
    if found and earlier.action <> vote then
      raise exception '% has voted on tool call % already: %', voter, call_id, earlier.action
        using errcode = 'AI001', column = 'toolCallId', hint = 'An actor has one vote, and it stands.';
    end if;
  end if;
  if earlier.id is null then
    insert into "ai_db".approvals (id, tool_call_id, session_id, action, actor_id, args_hash, reason)
      values (vote_id, call_id, in_session, vote, voter, hash, why);
  else
    update "ai_db".tool_calls c set updated_at = now() where c.id = call_id;
  end if;
  select c.status into outcome from "ai_db".tool_calls c where c.id = call_id;
  return outcome;
end $$;
