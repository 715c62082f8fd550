-- Tool executors that are no connection to the database: a browser tab, a phone. Each is a row of `workers`, without
-- agents and never rung, so that its lease covers what it holds and recovery gives it back as for any worker.
--
-- They are people's machines: a claim sees one session only, and never what only a worker of the agent may run.

-- Takes pending calls of a session, all or these `among` them, and gives the executor a lease for them.
create or replace function "ai_db".claim_tool_calls_for(
  in_session text, executor text, wanted text[], most integer, lease_ms float8, among text[]
) returns setof "ai_db".tool_calls language plpgsql as $$
begin
  -- Not an upsert: an insert rings the other workers, and this is asked often.
  update "ai_db".workers w set lease_expires_at = now() + lease_ms * interval '1 millisecond', tools = wanted
   where w.id = executor;
  if not found then
    insert into "ai_db".workers as w (id, name, tools, slots, lease_expires_at, version)
      values (executor, executor, wanted, 1, now() + lease_ms * interval '1 millisecond', 'browser')
      on conflict (id) do update set lease_expires_at = excluded.lease_expires_at, tools = excluded.tools;
  end if;
  return query
  with candidate as (
    select c.id from "ai_db".tool_calls c
     where c.session_id = in_session and c.status = 'pending' and c.run_at <= now() and c.name = any (wanted)
       and (among is null or c.id = any (among))
       and not c.worker_only and (c.approvals_required = 0 or c.approved_at is not null)
     order by c.priority desc nulls last, c.run_at, c.id
     limit most
     for update skip locked)
  update "ai_db".tool_calls c set
    status = 'executing', attempt = c.attempt + 1, worker_id = executor, started_at = coalesce(c.started_at, now())
  from candidate where c.id = candidate.id
  returning c.*;
end $$;

-- executing -> completed | failed, by the executor that holds it. Returns 'settled', 'repeated' or 'fenced'.
create or replace function "ai_db".settle_tool_call_for(
  in_session text, call_id text, executor text, fence integer, outcome text, value jsonb, failure text
) returns text language plpgsql as $$
declare
  held record;
begin
  perform 1 from "ai_db".generations g
    where g.id = (select c.generation_id from "ai_db".tool_calls c where c.id = call_id and c.session_id = in_session)
    for no key update;
  select c.status, c.attempt, c.worker_id into held
    from "ai_db".tool_calls c where c.id = call_id and c.session_id = in_session for no key update;
  if not found then
    raise exception 'there is no tool call % in this session', call_id
      using errcode = 'AI004', column = 'toolCallId', hint = 'Check the id.';
  end if;
  if held.attempt <> fence or held.worker_id is distinct from executor
     or held.status not in ('executing', outcome) then
    return 'fenced';
  end if;
  if held.status = outcome then
    update "ai_db".tool_calls c set updated_at = now() where c.id = call_id;
    return 'repeated';
  end if;
  update "ai_db".tool_calls c set status = outcome, result = value, error = failure, completed_at = now()
   where c.id = call_id;
  return 'settled';
end $$;
