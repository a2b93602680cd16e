;;; emacs_chat.el --- acp.el as the client of agh -*- lexical-binding: t; -*-

;; emacs -Q --batch -L ACP_EL -l acp -l emacs_chat.el -f FUNCTION COMMAND…
;;
;; FUNCTION is `chat-first', which waits to be killed in the middle of a turn, or `chat-again', which opens the
;; session of the environment variable SESSION.  Both append what they see to the file REPORT.

;;; Code:

(require 'acp)
(require 'json)
(require 'seq)

(defvar chat-client nil)
(defvar chat-updates nil "Updates since the last `chat-forget', newest first.")
(defvar chat-notifications nil "Methods of other notifications, newest first.")
(defvar chat-answers-permissions t)
(defvar chat-permissions nil "Titles of the requests for permission, newest first.")
(defvar chat-directory (getenv "WORKSPACE"))

(defun chat-report (step &rest facts)
  "Append STEP with FACTS, a property list, to the report."
  (let ((line (json-encode `(:step ,step ,@facts))))
    (write-region (concat line "\n") nil (getenv "REPORT") t 'silent)))

(defun chat-wait (condition)
  "Run the editor until CONDITION returns a value; return it."
  (let (value)
    (while (not (setq value (funcall condition)))
      (accept-process-output nil 0.01))
    value))

(defun chat-wait-for-file (name)
  "Wait until the test has created the file NAME beside the report."
  (let ((file (expand-file-name name (file-name-directory (getenv "REPORT")))))
    (chat-wait (lambda () (file-exists-p file)))))

(defun chat-kinds (kind)
  "Return the updates of KIND, oldest first."
  (reverse (seq-filter (lambda (update) (equal (map-elt update 'sessionUpdate) kind)) chat-updates)))

(defun chat-texts (kind)
  "Return the texts of the updates of KIND, oldest first."
  (mapcar (lambda (update) (map-nested-elt update '(content text))) (chat-kinds kind)))

(defun chat-text ()
  "Return what the agent has said."
  (apply #'concat (chat-texts "agent_message_chunk")))

(defun chat-forget ()
  "Forget the updates so far."
  (setq chat-updates nil))

(defun chat-buffer (path)
  "Return the buffer of the file PATH, as an editor would open it."
  (find-file-noselect path t))

(defun chat-answer (request)
  "Answer the agent's REQUEST: files from buffers, permissions with the first option."
  (let-alist request
    (pcase .method
      ("session/request_permission"
       (push .params.toolCall.title chat-permissions)
       (when chat-answers-permissions
         (acp-send-response
          :client chat-client
          :response (acp-make-session-request-permission-response
                     :request-id .id :option-id (map-elt (seq-first .params.options) 'optionId)))))
      ("fs/read_text_file"
       (acp-send-response
        :client chat-client
        :response (acp-make-fs-read-text-file-response
                   :request-id .id
                   :content (with-current-buffer (chat-buffer .params.path) (buffer-string)))))
      ("fs/write_text_file"
       (with-current-buffer (chat-buffer .params.path)
         (erase-buffer)
         (insert .params.content)
         (save-buffer))
       (acp-send-response
        :client chat-client
        :response (acp-make-fs-write-text-file-response :request-id .id))))))

(defun chat-note (notification)
  "Remember NOTIFICATION."
  (let-alist notification
    (if (equal .method "session/update")
        (push .params.update chat-updates)
      (push .method chat-notifications))))

(defun chat-request (request)
  "Send REQUEST; return its result once all updates before it have been handled."
  (let (is-answered answer failure)
    (acp-send-request
     :client chat-client :request request
     :on-success (lambda (result) (setq answer result is-answered t))
     :on-failure (lambda (error) (setq failure error is-answered t)))
    (chat-wait (lambda () is-answered))
    (when failure (error "%s: %S" (map-elt request :method) failure))
    answer))

(defun chat-prompt-request (session-id text)
  "Return a request that prompts SESSION-ID with TEXT."
  (acp-make-session-prompt-request
   :session-id session-id :prompt (list `((type . "text") (text . ,text)))))

(defun chat-prompt (session-id text)
  "Prompt SESSION-ID with TEXT; return the stop reason when its turn has ended."
  (chat-forget)
  (map-elt (chat-request (chat-prompt-request session-id text)) 'stopReason))

(defun chat-start (session-id text)
  "Prompt SESSION-ID with TEXT; return a function that returns the stop reason, nil before its end."
  (chat-forget)
  (let (reason)
    (acp-send-request
     :client chat-client :request (chat-prompt-request session-id text)
     :on-success (lambda (result) (setq reason (map-elt result 'stopReason)))
     :on-failure (lambda (error) (error "prompt: %S" error)))
    (lambda () reason)))

(defun chat-list ()
  "Return the ids of the sessions of this directory."
  (mapcar (lambda (session) (map-elt session 'sessionId))
          (map-elt (chat-request (acp-make-session-list-request :cwd chat-directory)) 'sessions)))

(defun chat-connect ()
  "Start the agent of the command line."
  (setq chat-client (acp-make-client :command (car command-line-args-left)
                                     :command-params (cdr command-line-args-left)))
  (setq command-line-args-left nil)
  (acp-subscribe-to-notifications :client chat-client :on-notification #'chat-note)
  (acp-subscribe-to-requests :client chat-client :on-request #'chat-answer)
  (acp-subscribe-to-errors :client chat-client :on-error (lambda (error) (chat-report "stderr" :error error)))
  (let ((answer (chat-request (acp-make-initialize-request
                               :protocol-version 1
                               :client-info '((name . "emacs") (version . "1"))
                               :read-text-file-capability t :write-text-file-capability t))))
    (chat-report "initialize" :version (map-elt answer 'protocolVersion)
                 :auth (map-elt answer 'authMethods)
                 :load (map-nested-elt answer '(agentCapabilities loadSession))
                 :emacs emacs-version :acp acp-package-version)))

(defun chat-first ()
  "Use everything that acp.el has a request for; then wait in the middle of a turn."
  (chat-connect)
  (let* ((session (chat-request (acp-make-session-new-request :cwd chat-directory)))
         (id (map-elt session 'sessionId))
         (file (expand-file-name "notes.txt" chat-directory))
         fork)
    (chat-report "new" :id id :mode (map-nested-elt session '(modes currentModeId))
                 :options (mapcar (lambda (option) (map-elt option 'id)) (map-elt session 'configOptions)))
    (chat-report "prompt" :reason (chat-prompt id "hello from Emacs")
                 :chunks (chat-texts "agent_message_chunk"))
    (chat-report "tools" :reason (chat-prompt id "/plan look;write\n/tool Search kind=search nothing")
                 :plan (mapcar (lambda (entry) (map-elt entry 'content))
                               (map-elt (car (chat-kinds "plan")) 'entries))
                 :calls (mapcar (lambda (call) (map-elt call 'title)) (chat-kinds "tool_call"))
                 :statuses (mapcar (lambda (call) (map-elt call 'status)) (chat-kinds "tool_call_update")))
    (chat-report "permission" :reason (chat-prompt id "/ask Write the file")
                 :titles chat-permissions :text (chat-text))
    (with-current-buffer (chat-buffer file) (insert "not saved, "))
    (chat-report "read" :reason (chat-prompt id (format "/read %s" file)) :text (chat-text))
    (chat-report "write" :reason (chat-prompt id (format "/change %s by the agent\\n" file)) :text (chat-text)
                 :buffer (with-current-buffer (chat-buffer file) (buffer-string)))
    (chat-request (acp-make-session-set-mode-request :session-id id :mode-id "code"))
    (chat-request (acp-make-session-set-config-option-request
                   :session-id id :config-id "model" :value "large"))
    (chat-prompt id "/settings")
    (chat-report "settings" :text (chat-text))
    (let ((ending (chat-start id "/stream 1000 0.05")))
      (chat-wait (lambda () (string-search "chunk 2 " (chat-text))))
      (acp-send-notification :client chat-client
                             :notification (acp-make-session-cancel-notification :session-id id))
      (chat-report "cancel" :reason (chat-wait ending)))
    (setq fork (map-elt (chat-request (acp-make-session-fork-request :session-id id :cwd chat-directory))
                        'sessionId))
    (chat-prompt fork "what did i say?")
    (chat-report "fork" :id fork :text (chat-text) :listed (chat-list))
    (chat-request (acp-make-session-delete-request :session-id fork))
    (chat-report "delete" :listed (chat-list))
    (chat-start id "/stream 60 0.05")
    (chat-wait (lambda () (string-search "chunk 3 " (chat-text))))
    (chat-report "streaming" :text (chat-text))
    (chat-wait #'ignore)))

(defun chat-again ()
  "Open the session of an editor that was killed, by load and by resume."
  (chat-connect)
  (let ((id (getenv "SESSION")))
    (chat-report "list" :listed (chat-list))
    (chat-request (acp-make-session-load-request :session-id id :cwd chat-directory))
    (chat-report "load" :prompts (chat-texts "user_message_chunk")
                 :answers (chat-texts "agent_message_chunk")
                 :calls (mapcar (lambda (call) (map-elt call 'title)) (chat-kinds "tool_call")))
    (chat-forget)
    (chat-wait (lambda () (string-search "from the terminal" (chat-text))))
    (chat-report "terminal" :prompts (chat-texts "user_message_chunk") :text (chat-text))
    (setq chat-answers-permissions nil chat-permissions nil)
    (let ((ending (chat-start id "/ask Elsewhere")))
      (chat-wait (lambda () chat-permissions))
      (chat-report "asked" :titles chat-permissions)
      (chat-report "answered" :reason (chat-wait ending) :text (chat-text) :others chat-notifications))
    (acp-shutdown :client chat-client)
    (setq command-line-args-left (split-string-and-unquote (getenv "COMMAND")))
    (chat-connect)
    (chat-forget)
    (chat-request (acp-make-session-resume-request :session-id id :cwd chat-directory))
    (chat-report "resume" :updates (length (append (chat-kinds "user_message_chunk")
                                                   (chat-kinds "agent_message_chunk"))))
    (chat-report "recall" :reason (chat-prompt id "what did i say?") :text (chat-text))
    (acp-shutdown :client chat-client)))

(provide 'emacs_chat)
;;; emacs_chat.el ends here
