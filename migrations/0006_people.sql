-- What people do to a conversation, where it takes more than one statement.
--
-- Lock order: session -> active generation -> tool call -> message -> queued generation. The session's lock (`no key
-- update`, which a send does not wait for) makes edits, retries and the end of a session come one after the other.
--
-- Superseded messages stay as a record. They are processed (CHECK messages_superseded_check), so no inbox, no
-- claim and no trigger of 0002 sees them; history leaves them out.
--
-- SQLSTATEs: AI001 ILLEGAL_TRANSITION, AI004 NOT_FOUND, AI005 INVALID_INPUT, AI006 UNKNOWN_SESSION, AI007 DUPLICATE_ID.

create or replace function "ai_db".touch_row() returns trigger language plpgsql as $$
begin
  new.updated_at := now();
  return new;
end $$;

create trigger sessions_touch before update on "ai_db".sessions for each row execute function "ai_db".touch_row();
create trigger messages_touch before update on "ai_db".messages for each row execute function "ai_db".touch_row();

create or replace function "ai_db".lock_session(session text) returns void language plpgsql as $$
begin
  perform 1 from "ai_db".sessions s where s.id = lock_session.session for no key update;
  if not found then
    raise exception 'there is no session %', lock_session.session
      using errcode = 'AI006', column = 'sessionId', hint = 'Check the id.';
  end if;
end $$;

-- Locks every unsettled generation of these agents, the active ones first, those that ask before those they wait for
-- last (an answer locks its asker). Again until a claim cannot have slipped in between.
create or replace function "ai_db".lock_generations(session text, agents text[]) returns void language plpgsql as $$
declare
  locked text[];
begin
  loop
    select array_agg(l.id) into locked from (
      select g.id from "ai_db".generations g
       where g.session_id = session and g.agent_name = any (agents)
         and g.attempt > 0 and g.status in ('pending', 'generating', 'waiting')
       order by g.created_at desc, g.id for no key update) l;
    perform 1 from "ai_db".generations g
     where g.session_id = session and g.agent_name = any (agents) and g.attempt = 0 and g.status = 'pending'
     order by g.id for no key update;
    exit when not exists (
      select 1 from "ai_db".generations g
       where g.session_id = session and g.agent_name = any (agents)
         and g.attempt > 0 and g.status in ('pending', 'generating', 'waiting') and g.id <> all (coalesce(locked, '{}')));
  end loop;
end $$;

-- Puts a new message in the place of one and of all that came after it, and stops what was answering them.
-- Returns true when this edit was made before.
create or replace function "ai_db".edit_message(
  in_session text, edited_id text, new_id text, new_content text, editor text
) returns boolean language plpgsql as $$
declare
  edited "ai_db".messages%rowtype;
  earlier "ai_db".messages%rowtype;
  agents text[];
  running record;
begin
  perform "ai_db".lock_session(in_session);
  select m.* into edited from "ai_db".messages m where m.id = edited_id and m.session_id = in_session;
  if not found then
    raise exception 'there is no message % in this session', edited_id
      using errcode = 'AI004', column = 'messageId', hint = 'Check the id.';
  end if;
  select m.* into earlier from "ai_db".messages m where m.id = new_id;
  if found then
    if (earlier.session_id, earlier.content, earlier.actor_id, edited.superseded_by)
        is distinct from (in_session, new_content, editor, new_id) then
      raise exception 'a message with the id % exists already', new_id
        using errcode = 'AI007', column = 'id', hint = 'Send a new id, or treat it as sent.';
    end if;
    update "ai_db".messages m set updated_at = now() where m.id = new_id;
    return true;
  end if;
  if edited.superseded_by is not null then
    raise exception 'message % was superseded already', edited_id
      using errcode = 'AI001', column = 'messageId', hint = 'Edit the message that took its place.';
  end if;
  if edited.role <> 'user'
     or exists (select 1 from "ai_db".tool_calls c where c.id = edited.request_id) then
    raise exception 'message % was not written by a person', edited_id
      using errcode = 'AI005', column = 'messageId', hint = 'Edit the message it answers.';
  end if;
  select array_agg(distinct m.target_agent) into agents from "ai_db".messages m
   where m.session_id = in_session and m.seq >= edited.seq and m.role <> 'assistant' and m.superseded_by is null;
  perform "ai_db".lock_generations(in_session, agents);
  update "ai_db".messages m set superseded_by = new_id, processed = true
   where m.session_id = in_session and m.seq >= edited.seq and m.superseded_by is null;
  -- Again: what was sent and claimed between the first locks and the update was superseded as well.
  select array_agg(distinct m.target_agent) into agents from "ai_db".messages m
   where m.session_id = in_session and m.seq >= edited.seq and m.role <> 'assistant' and m.superseded_by = new_id;
  perform "ai_db".lock_generations(in_session, agents);
  -- Those that ask first: what they asked is cancelled with them, and nobody is answered.
  for running in
    select g.id, g.attempt, g.agent_name from "ai_db".generations g
     where g.session_id = in_session and g.agent_name = any (agents) and g.status in ('pending', 'generating', 'waiting')
     order by g.created_at, g.id
  loop
    -- A queued one stays for the new message, or for what was said before the edited one.
    continue when running.attempt = 0 and (running.agent_name = edited.target_agent or exists (
      select 1 from "ai_db".messages m
       where m.session_id = in_session and m.target_agent = running.agent_name and not m.processed));
    update "ai_db".generations g set
      status = 'cancelled', cancel_reason = 'by-user', wait_reason = null, completed_at = now(),
      metadata = g.metadata || jsonb_build_object('supersededBy', new_id)
     where g.id = running.id and g.status in ('pending', 'generating', 'waiting');
  end loop;
  insert into "ai_db".messages (id, session_id, role, actor_id, target_agent, content, request_id, metadata)
    values (new_id, in_session, 'user', editor, edited.target_agent, new_content, edited.request_id, edited.metadata);
  return false;
end $$;

-- Answers the newest turn of an agent anew: what it said is superseded, what it was asked becomes unprocessed.
-- Returns the generation that will answer.
create or replace function "ai_db".retry_generation(
  in_session text, retried_id text, new_id text, actor text
) returns text language plpgsql as $$
declare
  retried "ai_db".generations%rowtype;
  asked text[];
  calls text[];
  first_seq bigint;
  last_seq bigint;
  answering text;
begin
  perform "ai_db".lock_session(in_session);
  select g.* into retried from "ai_db".generations g where g.id = retried_id and g.session_id = in_session;
  if not found then
    raise exception 'there is no generation % in this session', retried_id
      using errcode = 'AI004', column = 'generationId', hint = 'Check the id.';
  end if;
  if retried.metadata ->> 'retryId' = new_id then
    answering := retried.metadata ->> 'supersededBy';
    update "ai_db".generations g set updated_at = now() where g.id in (retried_id, answering);
    return answering;
  end if;
  if retried.status not in ('completed', 'failed', 'cancelled') then
    raise exception 'generation % has not ended', retried_id
      using errcode = 'AI001', column = 'generationId', hint = 'Cancel it first, or wait for its end.';
  end if;
  -- Its active generation is locked: it cannot end, nor another begin, while this looks.
  perform "ai_db".lock_generations(in_session, array[retried.agent_name]);
  -- One stopped before its first claim had no inbox, and took in what was there.
  asked := case when retried.attempt > 0 then array(select jsonb_array_elements_text(retried.inbox))
    else array(select m.id from "ai_db".messages m where m.session_id = in_session and m.processed_by = retried_id) end;
  select array_agg(m.id), min(m.seq), max(m.seq) into asked, first_seq, last_seq from "ai_db".messages m
   where m.id = any (asked) and m.superseded_by is null and m.processed_by = retried_id;
  if asked is null then
    raise exception 'generation % has nothing left to answer: it was retried or its messages were edited', retried_id
      using errcode = 'AI001', column = 'generationId', hint = 'Retry the newest turn, or edit a message.';
  end if;
  if exists (select 1 from "ai_db".generations g
      where g.session_id = in_session and g.agent_name = retried.agent_name
        and g.attempt > 0 and g.status in ('pending', 'generating', 'waiting'))
     or exists (select 1 from "ai_db".messages m
      where m.session_id = in_session and m.seq > last_seq and m.target_agent = retried.agent_name
        and m.role <> 'assistant' and m.processed and m.superseded_by is null and m.processed_by <> retried_id) then
    raise exception 'generation % is not the newest turn of %', retried_id, retried.agent_name
      using errcode = 'AI001', column = 'generationId', hint = 'Edit the message it answered instead.';
  end if;
  -- A queued generation would take the messages in, and does. Otherwise a new one.
  insert into "ai_db".generations as g (id, session_id, agent_name, priority, concurrency_key)
    select new_id, in_session, retried.agent_name, s.priority, s.concurrency_key
      from "ai_db".sessions s where s.id = in_session
    on conflict (session_id, agent_name) where status = 'pending' and attempt = 0
      do update set updated_at = now()
    returning g.id into answering;
  select coalesce(array_agg(c.id), '{}') into calls from "ai_db".tool_calls c where c.generation_id = retried_id;
  update "ai_db".messages m set superseded_by = answering, processed = true
   where m.session_id = in_session and m.seq > first_seq and m.superseded_by is null
     and (m.generation_id = retried_id or m.request_id = any (calls) or m.in_reply_to = any (calls));
  update "ai_db".messages m set processed = false, processed_by = null where m.id = any (asked);
  update "ai_db".generations g set
    metadata = g.metadata || jsonb_build_object('supersededBy', answering, 'retryId', new_id, 'retriedBy', actor)
   where g.id = retried_id;
  return answering;
end $$;

-- A session goes with all that hangs on it. What runs in it is stopped first: its holders are told.
create or replace function "ai_db".delete_session(session text) returns boolean language plpgsql as $$
begin
  perform 1 from "ai_db".sessions s where s.id = delete_session.session for no key update;
  if not found then
    return false;
  end if;
  -- Active ones only: a send holds the session before it wants the queued one.
  perform 1 from "ai_db".generations g
   where g.session_id = delete_session.session and g.attempt > 0 and g.status in ('pending', 'generating', 'waiting')
   order by g.created_at desc, g.id for no key update;
  perform pg_notify('ai_db', 'cancelled:' || g.id)
     from "ai_db".generations g
    where g.session_id = delete_session.session and g.status = 'generating';
  delete from "ai_db".sessions s where s.id = delete_session.session;
  return true;
end $$;
